/* Keeps frames from the host's network stack: src/programs/quiet.rs. */
#include "common.h"

/* `enum tcx_action_base`, which headers before Linux 6.6 do not have. */
enum { NEXT = -1, DROP = 2 };

/* The EtherType that passes, in network order. */
SETTING heard;

SEC("classifier")
int forebay_quiet(struct __sk_buff *packet)
{
    return packet->protocol == heard ? NEXT : DROP;
}
