/* Counts the packets of a capture file that each rule of a list decides.
 *
 *     rules RULES FILE [LIST [ENGINE]]
 *
 * RULES is a file of rules. LIST is one of its lists, as in lan1:in, which must
 * be given where it has several. */
#include <stdio.h>
#include <stdlib.h>

#include "capture.h"
#include "forebay.h"

static const char *action(const forebay_rules *rules, uint32_t answer)
{
    return forebay_rules_passes(rules, answer) ? "pass" : "reject";
}

int main(int argc, char **argv)
{
    uint32_t offset[BATCH], cap_len[BATCH], wire_len[BATCH], rule[BATCH];
    unsigned long *hits, by_default = 0, not_ip = 0;
    struct capture capture;
    size_t text_len, count, i;
    forebay_rules *rules;
    char *text;

    if (argc < 3 || argc > 5) {
        fprintf(stderr, "usage: rules RULES FILE [LIST [ENGINE]]\n");
        return 2;
    }
    text = contents(argv[1], &text_len);
    if (forebay_rules_new(text, text_len, argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL,
                          &rules)
        != FOREBAY_OK)
        fail(argv[1], forebay_last_error());
    free(text);
    hits = calloc(forebay_rules_count(rules) + 1, sizeof *hits);
    if (hits == NULL)
        fail(argv[1], "too many rules");
    open_capture(&capture, argv[2]);
    do {
        count = next_packets(&capture, offset, cap_len, wire_len);
        if (forebay_rules_match(rules, capture.linktype, capture.bytes, capture.length, offset,
                                cap_len, rule, count)
            != FOREBAY_OK)
            fail("batch", forebay_last_error());
        for (i = 0; i < count; i++) {
            if (rule[i] == FOREBAY_NO_RULE)
                by_default++;
            else if (rule[i] == FOREBAY_NOT_IP)
                not_ip++;
            else
                hits[rule[i]]++;
        }
    } while (count == BATCH);
    for (i = 0; i < forebay_rules_count(rules); i++) {
        uint32_t index = (uint32_t)i;

        printf("IPv%d rule %lu: %s %lu\n", forebay_rules_ip_version(rules, index),
               (unsigned long)forebay_rules_number(rules, index), action(rules, index), hits[i]);
    }
    printf("default: %s %lu\n", action(rules, FOREBAY_NO_RULE), by_default);
    printf("not IP: %s %lu\n", action(rules, FOREBAY_NOT_IP), not_ip);
    forebay_rules_free(rules);
    free(hits);
    free(capture.bytes);
    return 0;
}
