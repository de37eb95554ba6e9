/* Made by `cargo xtask bpf` from src/sys/layout.rs, which explains it. */
#pragma once

#define MAX_DEVICES (1024LL)
#define MAX_OUTPUTS (MAX_DEVICES - 1LL)
#define SEND_MEMORY (512LL << 10LL)
#define SEND_PREFIX (8LL)
#define MAX_FRAME (3392LL)
#define MIN_FRAME (14LL)

struct send_control {
    __u64 position;
    __u64 length;
    __u64 runs;
    __u64 no_device;
    __u64 failed;
};

#define HEAD_WORDS (7LL)
#define GENERATOR_MIN_FRAME (60LL)

struct generator_flow {
    __u64 head[HEAD_WORDS];
    __u64 frames;
    __u64 cut;
};


struct generator_control {
    __u64 next_at;
    __u64 interval;
    __u64 stop_at;
    __u64 allowed;
    __u64 position;
    __u64 sent;
    __u64 not_sent;
    __u64 early;
};


enum reason {
    REASON_RING_FULL,
    REASON_REFUSED,
    REASON_TOO_LONG,
    REASON_LINK_DOWN,
};

#define REASONS (4LL)

struct losses {
    __u64 frames[REASONS];
};

