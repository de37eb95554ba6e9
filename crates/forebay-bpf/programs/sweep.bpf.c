/* Removes records: src/programs/splitter/maps.rs. */
#include "common.h"

MAP(records);

/* Removes a record, if it still is what user space has read: while it decides, a packet may
 * come. The word becomes 0, which is no record; it is deleted only if its bucket records no
 * more, or a packet that is just making it a record again would be forgotten. */
SEC("xdp")
int forebay_sweep(struct xdp_md *frame)
{
    struct question *question = (void *)(long)frame->data;
    if ((void *)(question + 1) > (void *)(long)frame->data_end)
        return XDP_DROP;
    __u64 hash = question->hash, word = question->word;
    __u64 *record = bpf_map_lookup_elem(&records, &hash);
    if (!record || COMPARE_EXCHANGE(record, word, 0) != word)
        return XDP_DROP;
    if (question->number)
        bpf_map_delete_elem(&records, &hash);
    return XDP_PASS;
}
