/* Reads capture files for the examples.
 *
 * A file is a classic pcap capture in this machine's byte order, with time
 * stamps in microseconds. It is read whole. */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Packets that are handed over at a time. */
#define BATCH 1024

/* Sizes in bytes: of the file's header, and of the header of each packet. */
#define FILE_HEADER 24
#define RECORD_HEADER 16

struct capture {
    const char *path;
    char *bytes;
    size_t length;
    size_t at; /* where the next packet's header is */
    uint32_t linktype;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* The 32-bit number at byte `at`. */
static uint32_t number(const struct capture *capture, size_t at)
{
    uint32_t value;

    memcpy(&value, capture->bytes + at, sizeof value);
    return value;
}

/* The whole file; its length goes to *length. */
static char *contents(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *bytes;
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

static void open_capture(struct capture *capture, const char *path)
{
    capture->path = path;
    capture->bytes = contents(path, &capture->length);
    /* Offsets have 32 bits. Longer files would go in pieces, each with a base of
     * its own. */
    if (capture->length < FILE_HEADER || capture->length > UINT32_MAX
        || number(capture, 0) != 0xa1b2c3d4)
        fail(path, "is not a pcap file that this program reads");
    capture->linktype = number(capture, 20) & 0xffff;
    capture->at = FILE_HEADER;
}

/* Where the next packets lie and how long they are: BATCH of them, or fewer at
 * the end. */
static size_t next_packets(struct capture *capture, uint32_t *offset, uint32_t *cap_len,
                           uint32_t *wire_len)
{
    size_t count;

    for (count = 0; count < BATCH && capture->length - capture->at >= RECORD_HEADER; count++) {
        size_t packet = capture->at + RECORD_HEADER;

        offset[count] = (uint32_t)packet;
        cap_len[count] = number(capture, capture->at + 8);
        wire_len[count] = number(capture, capture->at + 12);
        if (cap_len[count] > capture->length - packet)
            fail(capture->path, "ends inside a packet");
        capture->at = packet + cap_len[count];
    }
    return count;
}

#endif
