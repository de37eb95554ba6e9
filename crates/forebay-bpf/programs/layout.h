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

#define REPLAY_NUMBER (18LL)
#define REPLAY_SOURCE (26LL)
#define REPLAY_DESTINATION (30LL)
#define REPLAY_STRIDE (40503LL)
#define REPLAY_INVERSE (30599LL)
#define REPLAY_STEP_BITS (4LL)
#define REPLAY_STEPS (1LL << REPLAY_STEP_BITS)
#define REPLAY_SLOTS (48LL * REPLAY_STEPS)

struct replay_place {
    __u64 at;
    __u64 length;
    __u64 from_client;
};


struct replay_arrivals {
    __u64 frames;
    __u64 bytes;
    __u64 delays[REPLAY_SLOTS];
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

#define SIGNAL_TCP (1LL << 8LL)
#define SIGNAL_FROM_HIGH (1LL << 9LL)
#define BUCKETS (1LL << 16LL)
#define MAX_SENSORS (1024LL)
#define MAX_INPUTS (32LL)
#define SENSOR_MASK ((1LL << OTHER_SHIFT) - 1LL)
#define OTHER_SHIFT (11LL)
#define RECORD (1LL << 22LL)
#define TURNED (1LL << 23LL)
#define CANCELLED (1LL << 24LL)
#define WATCHED (1LL << 30LL)
#define LOOK_UP (1LL << 31LL)
#define ON_RECORD (1LL)
#define LOW_CLOSED (2LL)
#define HIGH_CLOSED (4LL)
#define RECORD_SENSOR (4LL)
#define RECORD_TIME (16LL)
#define TIME_UNIT (20LL)
#define MAX_SHUNTED (1LL << 17LL)
#define SHUNT_WORDS (1LL << 16LL)
#define SHUNT_BIT (42LL)
#define PRESENT (1LL << 48LL)
#define SET_DESTINATION (1LL << 49LL)
#define SET_SOURCE (1LL << 50LL)
#define PUSH_TAG (1LL << 51LL)
#define DEAD (1LL << 52LL)
#define SECOND_PLACE (1LL << 53LL)
#define TALLY_PACKET (1LL << 36LL)
#define FLOW_BIT (43LL)

struct place {
    __u64 source;
    __u64 device;
};


struct sensor_entry {
    __u64 destination;
    struct place places[2LL];
    __u64 unused[3LL];
};


struct tables {
    __u64 entries[BUCKETS];
    struct sensor_entry sensors[MAX_SENSORS];
    __u64 recorded[BUCKETS];
    __u64 generation;
    __u64 spare_count;
    __u64 spares[MAX_SENSORS];
    __u64 marked;
    __u64 shunted;
    __u64 by_workers[MAX_DEVICES];
};


struct shunted_flow {
    __u64 until;
    __u64 packets;
    __u64 bytes;
    __u64 unused;
};


struct shunted {
    __u64 bits[SHUNT_WORDS];
    struct shunted_flow flows[MAX_SHUNTED];
};


struct pair {
    __u64 packets;
    __u64 bytes;
};


struct cell {
    __u64 tally;
    __u64 flows;
};


enum counter {
    COUNTER_FILTERED,
    COUNTER_GROUP_FILTERED,
    COUNTER_TO_USER_SPACE,
    COUNTER_NO_SENSOR,
    COUNTER_NO_INTERFACE,
    COUNTER_NO_SOCKET,
    COUNTER_NO_ROOM,
    COUNTER_SHUNTED,
    COUNTER_NOT_RECORDED,
    COUNTER_RESTARTS,
    COUNTER_NOT_MARKED,
};

#define COUNTERS (32LL)

struct section {
    struct pair counters[COUNTERS];
    struct pair inputs[MAX_INPUTS];
    struct pair devices[MAX_DEVICES];
    struct pair displaced[MAX_SENSORS];
    struct cell buckets[BUCKETS];
};


struct question {
    __u64 hash;
    __u64 word;
    __u64 number;
};

