/* The broker inside the kernel: src/programs/splitter/mod.rs. */
#include "key.h"

SETTING processors;
SETTING input;
SETTING idle_timeout;
SETTING keys_per_move;
/* How user space gets packets: 0 queues for the host's network stack. */
SETTING first_socket;
SETTING queues;
SETTING per_queue;
/* The section of the worker that a program decides for. */
SETTING own_section;

struct tables tables SHARED(tables);
struct section counters[1] SHARED(counters);
struct shunted shunted SHARED(shunted);
/* The time at which an address pair that is user space's was last seen; the records of keys. */
MAP(marks);
MAP(records);
/* The places of flows that are shunted by hand, by their hashes. */
MAP(shunt_places);
MAP(devices);
MAP(sockets);

/* Nanoseconds by which processors that write the time of the last marked packet may be
 * apart, by far. */
#define MARKED_SLACK 1000000000ULL

/* Attempts at a change that others get in the way of. */
#define ATTEMPTS 3

#define EEXIST 17

/* Flags of a TCP header (RFC 9293 section 3.1). */
enum { FIN = 0x01, SYN = 0x02, RST = 0x04, ACK = 0x10 };

#define TAG_BYTES 4
#define TAG_TYPE bpf_htons(0x8100)

/* A packet on its way, and what is counted of it. */
struct packet {
    struct section *section;
    __u64 length;
    __u64 hash;
    __u64 signal;
    /* The sensor of new keys of its bucket, and the one of its record; equal if it is not
     * displaced. */
    __u64 usual, recorded;
};

static __always_inline void count_pair(struct pair *pair, struct packet *packet)
{
    pair->packets++;
    pair->bytes += packet->length;
}

static __always_inline void count(struct packet *packet, enum counter counter)
{
    count_pair(&packet->section->counters[counter], packet);
}

static __always_inline int drop(struct packet *packet, enum counter counter)
{
    count(packet, counter);
    return XDP_DROP;
}

static __always_inline void tally(__u64 *at, struct packet *packet, int sign)
{
    *at += sign * (TALLY_PACKET + packet->length);
}

static __always_inline struct cell *cell_of(struct packet *packet)
{
    return &packet->section->buckets[packet->hash >> 48];
}

/* Adds the packet to displaced traffic, or takes it out. */
static __always_inline void tally_displaced(struct packet *packet, int sign)
{
    struct pair *displaced = packet->section->displaced;
    if (packet->usual == packet->recorded)
        return;
    if (packet->recorded < MAX_SENSORS)
        tally(&displaced[packet->recorded].packets, packet, sign);
    if (packet->usual < MAX_SENSORS)
        tally(&displaced[packet->usual].bytes, packet, sign);
}

static __always_inline int is_alive(__u64 sensor)
{
    return sensor < MAX_SENSORS
        && (tables.sensors[sensor].destination & (PRESENT | DEAD)) == PRESENT;
}

static __always_inline __u64 sensor_of_record(__u64 record)
{
    return record >> RECORD_SENSOR & SENSOR_MASK;
}

/* How the sensor of a packet in a moving bucket is decided: by its record; as for new keys;
 * likewise, and a record was made; likewise, and the move is cancelled, as the key cannot be
 * recorded. */
enum way { STAYS, NEW, RECORDED, CANCEL, EXISTS };

static __always_inline int is_over_allowance(__u64 bucket)
{
    return tables.recorded[bucket] >= keys_per_move;
}

/* Follows a record and updates it. Every change is a compare-and-exchange, tried a few
 * times: another processor may have a packet of the same key, and user space may be removing
 * the record. */
static __always_inline enum way follow(struct packet *packet, __u64 entry, __u64 *record,
                                       __u64 now, __u64 *sensor)
{
    const __u64 ended = LOW_CLOSED | HIGH_CLOSED;
    __u64 fresh = now | (entry & SENSOR_MASK) << RECORD_SENSOR | ON_RECORD;
    for (int i = 0; i < ATTEMPTS; i++) {
        __u64 old = *(volatile __u64 *)record, new = now | (old & 0xffff), signal = packet->signal;
        *sensor = sensor_of_record(old);
        if (!(old & ON_RECORD)) {
            /* What is left of a record is none, and may become one again. */
            if (!(entry & RECORD))
                return NEW;
            if (is_over_allowance(packet->hash >> 48))
                return CANCEL;
            if (COMPARE_EXCHANGE(record, old, fresh) == old)
                return RECORDED;
            continue;
        }
        if (!is_alive(*sensor)) {
            /* A record at a sensor that is no more: the key begins anew. */
            if (!(entry & RECORD) || COMPARE_EXCHANGE(record, old, fresh) == old)
                return NEW;
            continue;
        }
        if (signal & SIGNAL_TCP) {
            if (signal & RST) {
                new |= ended;
            } else if (signal & FIN) {
                new |= signal & SIGNAL_FROM_HIGH ? HIGH_CLOSED : LOW_CLOSED;
            } else if ((signal & (SYN | ACK)) == SYN && (old & ended) == ended) {
                /* A new connection: of the record's sensor while the bucket records. */
                if (entry & RECORD) {
                    new &= ~ended;
                } else {
                    if (COMPARE_EXCHANGE(record, old, 0) != old)
                        continue;
                    if ((entry & SENSOR_MASK) != *sensor)
                        count(packet, COUNTER_RESTARTS);
                    return NEW;
                }
            }
        }
        /* Most packets change nothing, and leave the cache line where it is. */
        if (new == old || COMPARE_EXCHANGE(record, old, new) == old)
            return STAYS;
    }
    return STAYS;
}

/* Makes a record of a key without one. */
static __always_inline enum way make_record(struct packet *packet, __u64 entry, __u64 now)
{
    if (!(entry & RECORD))
        return NEW;
    if (is_over_allowance(packet->hash >> 48))
        return CANCEL;
    __u64 hash = packet->hash;
    __u64 fresh = now | (entry & SENSOR_MASK) << RECORD_SENSOR | ON_RECORD;
    long error = bpf_map_update_elem(&records, &hash, &fresh, BPF_NOEXIST);
    if (!error)
        return RECORDED;
    return error == -EEXIST ? EXISTS : CANCEL;
}

/* Turns an entry that records into its cancelled form. The entry as it is then. */
static __always_inline __u64 cancel(__u64 bucket, __u64 entry)
{
    for (int i = 0; i < ATTEMPTS && entry & RECORD; i++) {
        __u64 from = entry & SENSOR_MASK, to = entry >> OTHER_SHIFT & SENSOR_MASK;
        if (entry & TURNED) {
            __u64 other = from;
            from = to;
            to = other;
        }
        __u64 new = (entry & WATCHED) | LOOK_UP | CANCELLED | from | to << OTHER_SHIFT;
        __u64 seen = COMPARE_EXCHANGE(&tables.entries[bucket], entry, new);
        entry = seen == entry ? new : seen;
    }
    return entry;
}

/* The sensor of a packet by its bucket's entry, also while the bucket moves. The rules are
 * those of the workers in user space (`forebay_balance::moves`). */
static __always_inline __u64 sensor_of(struct packet *packet, __u64 entry)
{
    if (!(entry & LOOK_UP))
        return entry & SENSOR_MASK;
    __u64 bucket = packet->hash >> 48, hash = packet->hash, sensor = 0;
    __u64 now = bpf_ktime_get_coarse_ns() >> TIME_UNIT << RECORD_TIME;
    enum way way = NEW;
    __u64 *record = bpf_map_lookup_elem(&records, &hash);
    if (!record) {
        way = make_record(packet, entry, now);
        /* Another processor has just made it, and it is followed as any other. */
        if (way == EXISTS) {
            record = bpf_map_lookup_elem(&records, &hash);
            way = NEW;
        }
    }
    if (record)
        way = follow(packet, entry, record, now, &sensor);
    switch (way) {
    case STAYS:
        packet->usual = entry & SENSOR_MASK;
        packet->recorded = sensor;
        tally_displaced(packet, 1);
        return sensor;
    case RECORDED:
        __sync_fetch_and_add(&tables.recorded[bucket], 1);
        break;
    case CANCEL:
        count(packet, COUNTER_NOT_RECORDED);
        entry = cancel(bucket, entry);
        break;
    case NEW:
    case EXISTS:
        break;
    }
    return entry & SENSOR_MASK;
}

/* Whether the packet's pair is marked and was not idle since: nearly always decided by one
 * word, the time of the last packet of any. */
static __always_inline int is_marked(__u64 pair)
{
    __u64 last = tables.marked;
    if (!last)
        return 0;
    __u64 now = bpf_ktime_get_coarse_ns();
    if (last < now && now - last > idle_timeout + MARKED_SLACK)
        return 0;
    __u64 *mark = bpf_map_lookup_elem(&marks, &pair);
    if (!mark)
        return 0;
    /* Another processor may have seen a later time, which is no time ago. */
    if (*mark < now && now - *mark > idle_timeout)
        return 0;
    *mark = now;
    tables.marked = now;
    return 1;
}

/* Marks the packet's pair. The time comes first: a packet that finds none does not look for
 * the mark, and would have come before this one. */
static __always_inline void set_mark(struct packet *packet, __u64 pair)
{
    __u64 now = bpf_ktime_get_coarse_ns();
    *(volatile __u64 *)&tables.marked = now;
    __u64 *mark = bpf_map_lookup_elem(&marks, &pair);
    if (mark)
        *mark = now;
    else if (bpf_map_update_elem(&marks, &pair, &now, BPF_ANY))
        count(packet, COUNTER_NOT_MARKED);
}

/* Whether the packet's flow is shunted by hand, and counts it then: nearly always decided by
 * one bit. */
static __always_inline int is_shunted(struct packet *packet)
{
    __u64 hash = packet->hash, bit = hash >> SHUNT_BIT;
    if (!(shunted.bits[bit >> 6] >> (bit & 63) & 1))
        return 0;
    __u64 *found = bpf_map_lookup_elem(&shunt_places, &hash);
    if (!found)
        return 0;
    __u64 place = *(volatile __u64 *)found;
    if (place >= MAX_SHUNTED)
        return 0;
    struct shunted_flow *flow = &shunted.flows[place];
    if (bpf_ktime_get_coarse_ns() >= *(volatile __u64 *)&flow->until)
        return 0;
    __sync_fetch_and_add(&flow->packets, 1);
    __sync_fetch_and_add(&flow->bytes, packet->length);
    return 1;
}

/* Counts the packet and its flow for its bucket. */
static __always_inline void count_flow(struct packet *packet)
{
    struct cell *cell = cell_of(packet);
    tally(&cell->tally, packet, 1);
    __u32 *flows = (__u32 *)&cell->flows + (tables.generation & 1);
    __u32 known = *flows, all = known | 1U << (packet->hash >> FLOW_BIT & 31);
    /* The cache line stays clean if the flow is known. */
    if (all != known)
        *flows = all;
}

/* A spare sensor for the hash, or none. */
static __always_inline __u64 spare(__u64 hash)
{
    __u64 place = (__u64)(__u32)(hash >> 32) * tables.spare_count >> 32;
    /* It is less than their number; the verifier needs a bound. */
    return tables.spare_count && place < MAX_SENSORS ? tables.spares[place] : SENSOR_MASK;
}

static __always_inline int give_to_user_space(struct xdp_md *frame, struct packet *packet)
{
    if (!queues) {
        count(packet, COUNTER_TO_USER_SPACE);
        return XDP_PASS;
    }
    __u64 queue = frame->rx_queue_index;
    if (queue >= queues)
        return drop(packet, COUNTER_NO_SOCKET);
    __u64 worker = per_queue > 1 ? worker_of_frame(frame, per_queue) : 0;
    __u64 slot = first_socket + queue * per_queue + worker;
    if (bpf_redirect_map(&sockets, slot, XDP_ABORTED) != XDP_REDIRECT)
        return drop(packet, COUNTER_NO_SOCKET);
    count(packet, COUNTER_TO_USER_SPACE);
    return XDP_REDIRECT;
}

/* Writes six bytes of a word. */
static __always_inline void write_address(__u8 *at, __u64 word)
{
    *(__u32 *)at = word;
    *(__u16 *)(at + 4) = word >> 32;
}

/* Puts a tag after the addresses, which move to the front. */
static __always_inline int push_tag(struct xdp_md *frame, __u16 tag)
{
    if (bpf_xdp_adjust_head(frame, -TAG_BYTES))
        return 0;
    __u8 *data = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
    if (data + ETHER_TYPE + TAG_BYTES + 2 > end)
        return 0;
    for (int i = 0; i < ETHER_TYPE; i += 4)
        *(__u32 *)(data + i) = *(__u32 *)(data + TAG_BYTES + i);
    *(__u16 *)(data + ETHER_TYPE) = TAG_TYPE;
    *(__u16 *)(data + ETHER_TYPE + 2) = tag;
    return 1;
}

/* Sends the frame to a sensor. Returns the action, or -1 if workers send the frames of its
 * output; the frame is unchanged then. */
static __always_inline int send(struct xdp_md *frame, struct packet *packet, __u64 sensor)
{
    if (sensor >= MAX_SENSORS)
        return drop(packet, COUNTER_NO_SENSOR);
    struct sensor_entry *entry = &tables.sensors[sensor];
    __u64 destination = *(volatile __u64 *)&entry->destination;
    if (!(destination & PRESENT))
        return drop(packet, COUNTER_NO_SENSOR);
    struct place *place = &entry->places[!!(destination & SECOND_PLACE)];
    __u64 device = (__u32)place->device, source = place->source;
    if (device >= MAX_DEVICES)
        return drop(packet, COUNTER_NO_INTERFACE);
    if (tables.by_workers[device])
        return -1;
    if (destination & PUSH_TAG && !push_tag(frame, source >> 48))
        return drop(packet, COUNTER_NO_ROOM);
    __u8 *data = (void *)(long)frame->data, *end = (void *)(long)frame->data_end;
    if (data + ETHER_TYPE > end)
        return drop(packet, COUNTER_NO_ROOM);
    if (destination & SET_DESTINATION)
        write_address(data, destination);
    if (destination & SET_SOURCE)
        write_address(data + 6, source);
    if (bpf_redirect_map(&devices, device, XDP_ABORTED) != XDP_REDIRECT)
        return drop(packet, COUNTER_NO_INTERFACE);
    count_pair(&packet->section->devices[device], packet);
    return XDP_REDIRECT;
}

/* Counts a frame that comes in. False on a processor beyond those that exist, for the verifier. */
static __always_inline int receive(struct xdp_md *frame, struct packet *packet)
{
    __u64 processor = bpf_get_smp_processor_id();
    if (processor >= processors)
        return 0;
    packet->section = ELEMENT(counters, processor);
    packet->length = bpf_xdp_get_buff_len(frame);
    count_pair(&packet->section->inputs[input], packet);
    return 1;
}

/* Frames that the filter, or the group's filter, rejects. */
SEC("xdp")
int filtered(struct xdp_md *frame)
{
    struct packet packet = {};
    return receive(frame, &packet) ? drop(&packet, COUNTER_FILTERED) : XDP_ABORTED;
}

SEC("xdp")
int group_filtered(struct xdp_md *frame)
{
    struct packet packet = {};
    return receive(frame, &packet) ? drop(&packet, COUNTER_GROUP_FILTERED) : XDP_ABORTED;
}

/* All other frames. */
SEC("xdp")
int forebay_split(struct xdp_md *frame)
{
    struct packet packet = {};
    struct flow flow;
    if (!receive(frame, &packet))
        return XDP_ABORTED;
    enum found found = find_flow(frame, &flow);
    if (found == NO_ADDRESSES)
        goto user_space;
    if (found == NOT_MINE)
        goto mark;
    if (is_marked(flow.pair))
        goto user_space;
    packet.hash = flow.hash;
    packet.signal = flow.signal;
    if (tables.shunted && is_shunted(&packet))
        return drop(&packet, COUNTER_SHUNTED);
    count_flow(&packet);
    __u64 sensor = sensor_of(&packet, tables.entries[packet.hash >> 48]);
    if (sensor == SENSOR_MASK)
        sensor = spare(packet.hash);
    int action = send(frame, &packet, sensor);
    if (action >= 0)
        return action;
    /* The worker that gets the frame counts it for its bucket. */
    tally(&cell_of(&packet)->tally, &packet, -1);
    tally_displaced(&packet, -1);
mark:
    set_mark(&packet, flow.pair);
user_space:
    return give_to_user_space(frame, &packet);
}

/* The sensor of a key whose packet a worker has: a question in place of a frame. */
SEC("xdp")
int forebay_seat(struct xdp_md *frame)
{
    struct question *question = (void *)(long)frame->data;
    if ((void *)(question + 1) > (void *)(long)frame->data_end)
        return SENSOR_MASK;
    struct packet packet = {
        .section = ELEMENT(counters, own_section),
        .hash = question->hash, .signal = question->word, .length = question->number,
    };
    return sensor_of(&packet, tables.entries[packet.hash >> 48]);
}
