/* Prints the numbers of the packets of a capture file that a filter keeps, and
 * how many they are.
 *
 *     filter EXPRESSION FILE
 *
 * The packets are filtered where they lie in the file. */
#include <stdio.h>
#include <stdlib.h>

#include "capture.h"
#include "forebay.h"

int main(int argc, char **argv)
{
    uint32_t offset[BATCH], cap_len[BATCH], wire_len[BATCH], verdict[BATCH];
    unsigned long packets = 0, kept = 0;
    struct capture capture;
    forebay_filter *filter;
    size_t count, i;

    if (argc != 3) {
        fprintf(stderr, "usage: filter EXPRESSION FILE\n");
        return 2;
    }
    open_capture(&capture, argv[2]);
    if (forebay_compile(argv[1], capture.linktype, &filter) != FOREBAY_OK)
        fail("expression", forebay_last_error());
    do {
        count = next_packets(&capture, offset, cap_len, wire_len);
        if (forebay_filter_batch(filter, capture.bytes, capture.length, offset, cap_len,
                                 wire_len, verdict, count)
            != FOREBAY_OK)
            fail("batch", forebay_last_error());
        for (i = 0; i < count; i++) {
            if (verdict[i] != 0) {
                printf("%lu\n", packets + (unsigned long)i + 1);
                kept++;
            }
        }
        packets += (unsigned long)count;
    } while (count == BATCH);
    printf("%lu of %lu packets\n", kept, packets);
    forebay_free(filter);
    free(capture.bytes);
    return 0;
}
