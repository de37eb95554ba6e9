//! What a confined process can still do. It cannot be undone, so a process of its own does it.

use std::io;
use std::process::Command;
use std::thread;

use forebay_broker::privileges::confine;

/// Tells the process of its own what it is.
const CONFINED: &str = "FOREBAY_TEST_CONFINED";

/// Has clone(2) make a process with these flags; what became of it.
fn clone(flags: libc::c_int) -> io::Result<()> {
    let flags = i64::from(flags | libc::SIGCHLD);
    // SAFETY: as fork(2), with a stack of its own by copy; the new process ends at once.
    let made = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if made == 0 {
        // SAFETY: runs nothing of this process.
        unsafe { libc::_exit(0) }
    }
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: waits for a process, and stores nothing.
    unsafe { libc::waitpid(made as libc::pid_t, std::ptr::null_mut(), 0) };
    Ok(())
}

#[test]
fn a_confined_process_makes_threads_and_no_namespaces() {
    if std::env::var_os(CONFINED).is_none() {
        let own = "a_confined_process_makes_threads_and_no_namespaces";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", own]).env(CONFINED, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    confine().unwrap();
    assert_eq!(thread::spawn(|| 7).join().unwrap(), 7);
    for flags in [libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWUSER | libc::CLONE_NEWNS]
    {
        let refused = clone(flags).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM), "{flags:#x}");
    }
    assert_eq!(
        Command::new("/bin/true").status().unwrap_err().kind(),
        io::ErrorKind::PermissionDenied
    );
}
