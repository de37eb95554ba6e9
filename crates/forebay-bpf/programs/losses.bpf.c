/* Counts losses after a redirect: src/programs/losses.rs. */
#include "common.h"

#include <bpf/bpf_core_read.h>

/* The members that are read of the kernel's structures, wherever this kernel has them. */
#define KERNEL __attribute__((preserve_access_index))
struct ns_common { unsigned int inum; } KERNEL;
struct net { struct ns_common ns; } KERNEL;
typedef struct { struct net *net; } KERNEL possible_net_t;
struct net_device { int ifindex; possible_net_t nd_net; } KERNEL;

/* Arguments of `xdp_devmap_xmit` and of `xdp_redirect_err` (include/trace/events/xdp.h of
 * the kernel). */
enum { FROM_DEVICE = 0, TO_DEVICE = 1, DROPS = 3, XMIT_ERROR = 4 };
enum { ERROR = 3, MAP_ID = 5, SLOT = 6 };

/* The number of the loopback device of every network namespace. */
#define LOOPBACK 1

/* Kernel error numbers. */
#define MESSAGE_SIZE 90
#define NETWORK_DOWN 100

/* The network namespace of the devices. */
SETTING namespace;
/* The device, and the number of processors, for frames of test runs. */
SETTING interface;
SETTING processors;
/* The device map. */
SETTING map;

struct losses lost[1] SHARED(lost);
__u64 owners[1] SHARED(owners);
MAP(slots);

static __always_inline int count(__u64 slot, enum reason reason, __u64 frames)
{
    if (slot < MAX_DEVICES)
        __sync_fetch_and_add(&ELEMENT(lost, slot)->frames[reason], frames);
    return 0;
}

static __always_inline enum reason reason_of_sending(struct bpf_raw_tracepoint_args *arguments)
{
    return (int)arguments->args[XMIT_ERROR] >= 0 ? REASON_RING_FULL : REASON_REFUSED;
}

/* The number of the device that frames were given to, or 0 if it is in another namespace. */
static __always_inline int device_of(struct bpf_raw_tracepoint_args *arguments)
{
    struct net_device *device = (void *)arguments->args[TO_DEVICE];
    if (BPF_CORE_READ(device, nd_net.net, ns.inum) != (unsigned int)namespace)
        return 0;
    return BPF_CORE_READ(device, ifindex);
}

/* Frames given to a device of any source. */
SEC("raw_tp/xdp_devmap_xmit")
int forebay_sent(struct bpf_raw_tracepoint_args *arguments)
{
    __u32 drops = arguments->args[DROPS];
    if (!drops)
        return 0;
    int device = device_of(arguments);
    __u32 *slot = bpf_map_lookup_elem(&slots, &device);
    return slot ? count(*slot, reason_of_sending(arguments), drops) : 0;
}

/* Frames of test runs, which come from the loopback device. The processor's owner is the
 * slot, since the frames of a run are sent before another program runs there. */
SEC("raw_tp/xdp_devmap_xmit")
int forebay_runs(struct bpf_raw_tracepoint_args *arguments)
{
    __u32 drops = arguments->args[DROPS];
    if (!drops || device_of(arguments) != (int)interface)
        return 0;
    struct net_device *from = (void *)arguments->args[FROM_DEVICE];
    if (BPF_CORE_READ(from, ifindex) != LOOPBACK)
        return 0;
    __u64 processor = bpf_get_smp_processor_id();
    if (processor >= processors)
        return 0;
    return count(*ELEMENT(owners, processor), reason_of_sending(arguments), drops);
}

/* Frames refused before that. */
SEC("raw_tp/xdp_redirect_err")
int forebay_refused(struct bpf_raw_tracepoint_args *arguments)
{
    if ((__u32)arguments->args[MAP_ID] != map)
        return 0;
    int error = (int)arguments->args[ERROR];
    enum reason reason = error == -MESSAGE_SIZE ? REASON_TOO_LONG
        : error == -NETWORK_DOWN ? REASON_LINK_DOWN : REASON_REFUSED;
    return count((__u32)arguments->args[SLOT], reason, 1);
}
