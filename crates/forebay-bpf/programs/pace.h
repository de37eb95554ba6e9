/* When a generator sends: src/programs/generator.rs. */
#pragma once

#include "common.h"

struct generator_control control SHARED(control);

/* Whether a frame is due. Reads the clock only if needed. */
static __always_inline int is_due(void)
{
    if (control.sent >= control.allowed)
        return 0;
    __u64 stop_at = control.stop_at, interval = control.interval;
    if (!(stop_at | interval))
        return 1;
    __u64 now = bpf_ktime_get_ns();
    if (stop_at && now >= stop_at)
        return 0;
    if (!interval)
        return 1;
    if (now < control.next_at)
        return 0;
    __u64 next = control.next_at + interval;
    control.next_at = next < now ? now + interval : next;
    return 1;
}

/* Sends the frame. */
static __always_inline long send_by(void *devices)
{
    long action = bpf_redirect_map(devices, 0, XDP_DROP);
    if (action == XDP_REDIRECT)
        control.sent++;
    else
        control.not_sent++;
    return action;
}
