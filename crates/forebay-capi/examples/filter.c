/* Prints the numbers of the packets of a capture file that a filter keeps, and
 * how many they are.
 *
 *     filter EXPRESSION FILE
 *
 * The file is a classic pcap capture in this machine's byte order, with time
 * stamps in microseconds. It is read whole, and the packets are filtered where
 * they lie in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forebay.h"

/* Packets that are handed over at a time. */
#define BATCH 256

/* Sizes in bytes: of the file's header, and of the header of each packet. */
#define FILE_HEADER 24
#define RECORD_HEADER 16

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "filter: %s: %s\n", what, why);
    exit(1);
}

/* The 32-bit number at byte `at`. */
static uint32_t number(const unsigned char *bytes, size_t at)
{
    uint32_t value;

    memcpy(&value, bytes + at, sizeof value);
    return value;
}

/* The whole file; its length goes to *length. */
static unsigned char *contents(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes;
    long end;

    if (file == NULL)
        fail(path, "cannot be opened");
    if (fseek(file, 0, SEEK_END) != 0 || (end = ftell(file)) < 0)
        fail(path, "has no length");
    rewind(file);
    *length = (size_t)end;
    bytes = malloc(*length + 1);
    if (bytes == NULL || fread(bytes, 1, *length, file) != *length)
        fail(path, "cannot be read");
    fclose(file);
    return bytes;
}

int main(int argc, char **argv)
{
    uint32_t offset[BATCH], cap_len[BATCH], wire_len[BATCH], verdict[BATCH];
    size_t length, at = FILE_HEADER, count, i;
    unsigned long packets = 0, kept = 0;
    unsigned char *file;
    forebay_filter *filter;

    if (argc != 3) {
        fprintf(stderr, "usage: filter EXPRESSION FILE\n");
        return 2;
    }
    file = contents(argv[2], &length);
    /* Offsets have 32 bits. Longer files would go in pieces, each with a base of
     * its own. */
    if (length < FILE_HEADER || length > UINT32_MAX || number(file, 0) != 0xa1b2c3d4)
        fail(argv[2], "is not a pcap file that this program reads");
    if (forebay_compile(argv[1], number(file, 20) & 0xffff, &filter) != FOREBAY_OK)
        fail("expression", forebay_last_error());
    do {
        for (count = 0; count < BATCH && length - at >= RECORD_HEADER; count++) {
            uint32_t captured = number(file, at + 8);

            if (captured > length - at - RECORD_HEADER)
                fail(argv[2], "ends inside a packet");
            offset[count] = (uint32_t)(at + RECORD_HEADER);
            cap_len[count] = captured;
            wire_len[count] = number(file, at + 12);
            at += RECORD_HEADER + captured;
        }
        if (forebay_filter_batch(filter, file, length, offset, cap_len, wire_len, verdict, count)
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
    free(file);
    return 0;
}
