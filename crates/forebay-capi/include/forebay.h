/* Forebay's compiled packet filters and rule lists for C and C++ programs.
 *
 * A filter is compiled once, by libpcap's rules, into machine code for the
 * processor that runs it, and then run over batches of packets:
 *
 *     forebay_filter *filter;
 *     if (forebay_compile("tcp port 80", 1, &filter) != FOREBAY_OK)
 *         errx(1, "%s", forebay_last_error());
 *     if (forebay_filter_batch(filter, memory, memory_len, offset, cap_len,
 *                              wire_len, verdict, count) != FOREBAY_OK)
 *         errx(1, "%s", forebay_last_error());
 *     forebay_free(filter);
 *
 * The verdict on a packet is the number that libpcap's bpf_filter() returns
 * for the program that tcpdump -d shows: how many of its bytes to keep, 0 to
 * drop it.
 *
 * A rule list is read from text, once, and then says of each packet which of its
 * rules is the first that matches:
 *
 *     forebay_rules *rules;
 *     if (forebay_rules_new(text, text_len, NULL, NULL, &rules) != FOREBAY_OK)
 *         errx(1, "%s", forebay_last_error());
 *     if (forebay_rules_match(rules, 1, memory, memory_len, offset, cap_len,
 *                             rule, count) != FOREBAY_OK)
 *         errx(1, "%s", forebay_last_error());
 *     if (!forebay_rules_passes(rules, rule[0]))
 *         printf("rejected by rule %u\n", forebay_rules_number(rules, rule[0]));
 *     forebay_rules_free(rules);
 *
 * Threads. Every function may be called from any thread at any time. Filters
 * and rules never change: any number of threads may use one at once. Making
 * them reads the environment, so no thread may call setenv() meanwhile. No
 * function may be called from a signal handler.
 *
 * Memory. What the caller passes stays the caller's, and is not looked at any
 * more when the call has returned. Filters and rules are the library's, until
 * they are freed. When the heap is exhausted the process is aborted.
 *
 * The environment. FOREBAY_ISA is the level of instructions to compile for:
 * avx512vbmi, avx512bw, avx2 or scalar, by default the highest that the
 * processor has. FOREBAY_PERF_MAP=1 names compiled filters to perf.
 *
 * Compatibility. The shared library's name, libforebay.so.N, changes with every
 * version that breaks programs compiled before. Within one name there may come
 * new functions and new statuses: take whatever is not FOREBAY_OK for a
 * failure. Linux on x86-64 only. */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; forebay_version() tells the library's. */
#define FOREBAY_VERSION_MAJOR 0
#define FOREBAY_VERSION_MINOR 1
#define FOREBAY_VERSION_PATCH 0
#define FOREBAY_VERSION                                                        \
    (FOREBAY_VERSION_MAJOR * 1000000 + FOREBAY_VERSION_MINOR * 1000            \
     + FOREBAY_VERSION_PATCH)

/* The compiler warns where the result is not looked at. */
#if defined(__GNUC__)
#define FOREBAY_MUST_CHECK __attribute__((__warn_unused_result__))
#else
#define FOREBAY_MUST_CHECK
#endif

/* What functions return. On anything but FOREBAY_OK, forebay_last_error() says
 * more. */
enum forebay_status {
    /* Done. */
    FOREBAY_OK = 0,
    /* A pointer is null or not aligned, a table is too long, tables overlap
     * that must not, a packet lies outside its memory, or no engine has that
     * name. */
    FOREBAY_INVALID_ARGUMENT = 1,
    /* The expression, the link type or the program is refused. */
    FOREBAY_BAD_FILTER = 2,
    /* This machine or its settings do not allow it: FOREBAY_ISA names a level
     * that the processor lacks or none at all, or the system gives no thread,
     * no file or no executable memory. */
    FOREBAY_UNAVAILABLE = 3,
    /* A mistake of the library's own. Filters and rules are still to be freed. */
    FOREBAY_INTERNAL = 4,
    /* The rules are refused: one of their lines, the choice of a list, or a list
     * that the engine does not take. */
    FOREBAY_BAD_RULES = 5
};

/* A compiled filter. */
typedef struct forebay_filter forebay_filter;

/* An instruction of a classic BPF program, laid out as struct bpf_insn and
 * struct sock_filter are. */
typedef struct forebay_instruction {
    uint16_t code; /* the operation */
    uint8_t jt;    /* instructions to skip if a test holds */
    uint8_t jf;    /* instructions to skip if it does not */
    uint32_t k;    /* its constant */
} forebay_instruction;

/* The library's version, as FOREBAY_VERSION. */
uint32_t forebay_version(void);

/* Compiles a filter expression, as pcap-filter(7) describes them.
 *
 * expression  zero-terminated text in UTF-8; "" keeps every packet
 * linktype    how packets begin: the LINKTYPE_ value of capture files, 1 for
 *             Ethernet (https://www.tcpdump.org/linktypes.html)
 * filter      receives the filter, to be freed with forebay_free(); NULL on
 *             failure
 *
 * Host, port and protocol names are looked up meanwhile, which may take time.
 *
 * Returns FOREBAY_OK or any other status. */
FOREBAY_MUST_CHECK
int forebay_compile(const char *expression, uint32_t linktype, forebay_filter **filter);

/* Compiles a classic BPF program, such as pcap_compile() makes.
 *
 * program  its instructions
 * count    how many there are
 * filter   as for forebay_compile()
 *
 * The program is checked first, by the rules that libpcap's bpf_validate()
 * goes by.
 *
 * Returns FOREBAY_OK or any other status. */
FOREBAY_MUST_CHECK
int forebay_compile_program(const forebay_instruction *program, size_t count,
                            forebay_filter **filter);

/* Runs a filter over packets that lie in one range of memory.
 *
 * filter        the filter
 * base          start of the memory; may be NULL if readable_len is 0
 * readable_len  bytes from base on that may be read; nothing beyond them is.
 *               Make it the whole range, not only up to the last packet's end:
 *               packets that start near its end, usually less than 128 bytes
 *               before it, take a slower path
 * offset        where each packet starts, in bytes from base
 * cap_len       how many bytes of each packet are there; offset + cap_len must
 *               not be above readable_len
 * wire_len      how long each packet was on the wire; may be the table cap_len
 * verdict       receives the verdict on each packet
 * count         elements of each of the four tables, which may be NULL if it is
 *               0; any number, best a multiple of 256
 *
 * Packets may lie in any order, overlap, and start at any address. For a packet
 * on its own, count is 1, base is its address, and its offset is 0.
 *
 * Nothing may write to the memory or the tables meanwhile. verdict must not
 * share bytes with them. No lock is taken, and on success nothing is allocated.
 *
 * Returns FOREBAY_OK; FOREBAY_INVALID_ARGUMENT, and has written no verdict; or
 * FOREBAY_INTERNAL, and verdicts mean nothing. */
FOREBAY_MUST_CHECK
int forebay_filter_batch(const forebay_filter *filter, const void *base, size_t readable_len,
                         const uint32_t *offset, const uint32_t *cap_len,
                         const uint32_t *wire_len, uint32_t *verdict, size_t count);

/* Frees a filter, once, when no thread runs it any more. NULL is allowed. */
void forebay_free(forebay_filter *filter);

/* One rule list, ready for matching. */
typedef struct forebay_rules forebay_rules;

/* Answers of forebay_rules_match() that are no rule's index. */
/* No rule matches: the list's default decides. */
#define FOREBAY_NO_RULE 0xffffffffu
/* The list is not for this packet: it is not IP, or was cut before its addresses
 * end. */
#define FOREBAY_NOT_IP 0xfffffffeu

/* Reads a rule list and makes it ready.
 *
 * text    rules in one of the languages that docs/rule-lists.md describes, which
 *         is told from the text; may be NULL if length is 0
 * length  its bytes
 * list    which of the text's lists: an access list's or a chain's name, or the
 *         interface and the direction, as in "lan1:in". NULL for the only one, or
 *         where a text of YAMAHA routers applies no rules anywhere, for all of
 *         them by number
 * engine  how to match: naive, list, pe, pe-generic, pe-1, ems, tree or auto.
 *         They differ in speed only, and in which lists they take. NULL for
 *         auto, which suits the list to the machine
 * rules   receives the rules, to be freed with forebay_rules_free(); NULL on
 *         failure
 *
 * Returns FOREBAY_OK or any other status. On FOREBAY_BAD_RULES,
 * forebay_last_error() names the line, or says what list there is not or what
 * the engine does not take. */
FOREBAY_MUST_CHECK
int forebay_rules_new(const char *text, size_t length, const char *list, const char *engine,
                      forebay_rules **rules);

/* Finds the first rule that matches, for packets that lie in one range of
 * memory.
 *
 * rules         the rules
 * linktype      how packets begin, as for forebay_compile(). Packets of types
 *               behind which no IP header is looked for are FOREBAY_NOT_IP
 * base          start of the memory; may be NULL if readable_len is 0
 * readable_len  bytes from base on that may be read; nothing beyond them is
 * offset        where each packet starts, in bytes from base
 * cap_len       how many bytes of each packet are there; offset + cap_len must
 *               not be above readable_len
 * rule          receives for each packet the index of the rule, from 0 for the
 *               list's first, or FOREBAY_NO_RULE or FOREBAY_NOT_IP
 * count         elements of each of the three tables, which may be NULL if it
 *               is 0; any number, best a multiple of 1024
 *
 * Packets may lie in any order, overlap, and start at any address. Nothing may
 * write to the memory or the tables meanwhile. rule must not share bytes with
 * them. No lock is taken.
 *
 * Returns FOREBAY_OK; FOREBAY_INVALID_ARGUMENT, and has written no answer; or
 * FOREBAY_INTERNAL, and answers mean nothing. */
FOREBAY_MUST_CHECK
int forebay_rules_match(const forebay_rules *rules, uint32_t linktype, const void *base,
                        size_t readable_len, const uint32_t *offset, const uint32_t *cap_len,
                        uint32_t *rule, size_t count);

/* How many rules the list has; 0 for NULL. */
size_t forebay_rules_count(const forebay_rules *rules);

/* The number of the rule at an index, as the text gives it: unique among the
 * rules of one version of IP. FOREBAY_NO_RULE if there is no such rule. */
uint32_t forebay_rules_number(const forebay_rules *rules, uint32_t index);

/* The version of IP that the rule at an index is for, 4 or 6. 0 if there is no
 * such rule. */
int forebay_rules_ip_version(const forebay_rules *rules, uint32_t index);

/* Whether an answer of forebay_rules_match() lets the packet pass: 1 if so, 0 if
 * it is rejected. FOREBAY_NO_RULE is what the default says, which rejects but in
 * a chain whose policy is to accept; FOREBAY_NOT_IP passes. 0 for what is no answer, and if rules is NULL. */
int forebay_rules_passes(const forebay_rules *rules, uint32_t index);

/* Frees rules, once, when no thread uses them any more. NULL is allowed. */
void forebay_rules_free(forebay_rules *rules);

/* What was wrong in this thread's last call that failed, in English, on one
 * line or, with the place in an expression, on three; "" if none has failed.
 * Calls that succeed do not change it. Never NULL, and not to be freed. Valid
 * until the next call that fails in this thread, or the thread's end. */
const char *forebay_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
