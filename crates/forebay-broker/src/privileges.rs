//! Gives up what a broker needs only to open its ports.
//!
//! Raw sockets, devices and BPF programs take root or capabilities; working on packets
//! takes neither. So once all ports are open the process becomes an ordinary user for
//! good, can gain no new privileges, and may make only the system calls of a list.
//! What is not on that list fails with EPERM. Threads may be started, namespaces not: in one
//! of its own a process has all capabilities. Who the process is is settled before any
//! thread is started; the list holds for those too that listen already, as listening
//! takes calls that are not on it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;

use nix::unistd::{Uid, User, initgroups, setgid, setuid};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// There is no such user.
    #[error("no user `{0}`: expected the name of a user of this machine")]
    NoUser(String),
    /// It is not allowed to become the user.
    #[error("cannot become user `{user}`: {source}")]
    Become {
        /// The user.
        user: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Capabilities cannot be given up.
    #[error("cannot give up capabilities: {0}")]
    Capabilities(io::Error),
    /// System calls cannot be confined.
    #[error("cannot confine system calls: {0}")]
    Confine(String),
}

/// System calls of a running broker: packets, timers, threads, the control socket, the
/// files of captures and of a configuration that is read again, code for new filters.
const ALLOWED: &[i64] = &[
    // Packets and waiting for them.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_ppoll,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_ioctl,
    libc::SYS_bpf,
    // The control socket and metrics.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_accept4,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    // Files.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_memfd_create,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_umask,
    libc::SYS_copy_file_range,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads, signals, time.
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getrandom,
    libc::SYS_prctl,
    libc::SYS_membarrier,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Older forms of some of them, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_poll,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_unlink,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_open,
    libc::SYS_pipe,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// What it takes to put other programs in the place of those that steer packets in the
/// kernel, when settings change.
pub const FOR_PROGRAMS: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::NET_ADMIN).union(CapabilitySet::PERFMON);

/// The numbers of `user` and of its group.
///
/// # Errors
/// [`PrivilegeError::NoUser`], [`PrivilegeError::Become`].
pub fn numbers_of(user: &str) -> Result<(u32, u32), PrivilegeError> {
    known(user).map(|known| (known.uid.as_raw(), known.gid.as_raw()))
}

fn known(user: &str) -> Result<User, PrivilegeError> {
    let found = User::from_name(user).map_err(|errno| PrivilegeError::Become {
        user: user.to_owned(),
        source: io::Error::from(errno),
    })?;
    found.ok_or_else(|| PrivilegeError::NoUser(user.to_owned()))
}

/// Becomes `user`, for good. Does nothing if the process is that user already. With
/// `keeps_programs`, what it may do beyond that is left to [`keep_capabilities`]; else it
/// is gone.
///
/// # Errors
/// [`PrivilegeError::NoUser`], [`PrivilegeError::Become`].
pub fn become_user(user: &str, keeps_programs: bool) -> Result<(), PrivilegeError> {
    let failed = |errno: nix::Error| PrivilegeError::Become {
        user: user.to_owned(),
        source: io::Error::from(errno),
    };
    let known = known(user)?;
    if Uid::effective() == known.uid && !known.uid.is_root() {
        return Ok(());
    }
    let name = CString::new(user).map_err(|_| PrivilegeError::NoUser(user.to_owned()))?;
    initgroups(&name, known.gid).map_err(failed)?;
    setgid(known.gid).map_err(failed)?;
    let refused = |errno: Errno| PrivilegeError::Become {
        user: user.to_owned(),
        source: io::Error::from(errno),
    };
    set_keep_capabilities(keeps_programs).map_err(refused)?;
    setuid(known.uid).map_err(failed)
}

/// Gives up all capabilities but those in `kept`, as far as there are any, also those that
/// an ordinary user was given to open ports with. Root keeps its own. To be called before
/// there are other threads.
///
/// # Errors
/// [`PrivilegeError::Capabilities`]
pub fn keep_capabilities(kept: CapabilitySet) -> Result<(), PrivilegeError> {
    if Uid::effective().is_root() {
        return Ok(());
    }
    let failed = |error: Errno| PrivilegeError::Capabilities(error.into());
    let may = capabilities(None).map_err(failed)?.permitted & kept;
    let sets =
        CapabilitySets { effective: may, permitted: may, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed)
}

/// The flags with which clone(2) makes namespaces.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// From now on only the system calls of a list work, and no program that is started
/// can have more privileges than this one.
///
/// # Errors
/// [`PrivilegeError::Confine`]
pub fn confine() -> Result<(), PrivilegeError> {
    let failed = |error: &dyn std::error::Error| PrivilegeError::Confine(error.to_string());
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let programs = programs(arch).map_err(|error| failed(&error))?;
    // Sets no_new_privs first, which the kernel demands of ordinary users, and both for
    // all threads there are.
    let apply = |program: &BpfProgram| seccompiler::apply_filter_all_threads(program);
    programs.iter().try_for_each(apply).map_err(|error| failed(&error))
}

/// The filters, of which the strictest counts.
fn programs(arch: TargetArch) -> Result<[BpfProgram; 2], BackendError> {
    // No filter can see the arguments of clone3. Where it is missing, C libraries take clone.
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let clone3 = SeccompFilter::new(clone3, SeccompAction::Allow, missing, arch)?;

    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(OLDER).map(|&call| (call, Vec::new())).collect();
    let none_of = SeccompCmpOp::MaskedEq(u64::from(NAMESPACES.cast_unsigned()));
    let no_namespace = SeccompCondition::new(0, SeccompCmpArgLen::Qword, none_of, 0)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![no_namespace])?]);
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let listed = SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?;
    Ok([clone3.try_into()?, listed.try_into()?])
}
