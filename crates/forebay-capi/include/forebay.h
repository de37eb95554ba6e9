/* Forebay's compiled packet filters and rule lists for C and C++ programs.
 *
 * A filter is compiled once, with libpcap's semantics, into machine code for the
 * present processor, and then run over batches of packets:
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
 * for the program that tcpdump -d prints: how many of its bytes to keep, 0 to
 * drop it.
 *
 * A rule list is parsed from text, once; matching then gives the first matching
 * rule of each packet:
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
 * and rules never change: any number of threads may use one at once. Creating
 * them reads the environment, so no thread may call setenv() meanwhile. No
 * function may be called from a signal handler.
 *
 * Memory. Arguments remain the caller's, and are not accessed after the call
 * has returned. Filters and rules are owned by the library until they are
 * freed. When the heap is exhausted the process is aborted.
 *
 * The environment. FOREBAY_ISA is the instruction-set level to compile for:
 * avx512vbmi, avx512bw, avx2 or scalar; the default is the highest of the
 * processor. FOREBAY_PERF_MAP=1 reports the names of compiled filters to perf.
 *
 * Compatibility. The shared library's name, libforebay.so.N, changes with every
 * version that breaks programs compiled before. Versions of the same name may
 * add functions and statuses: treat any status but FOREBAY_OK as a failure.
 * Linux on x86-64 only. */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; forebay_version() returns the library's. */
#define FOREBAY_VERSION_MAJOR 0
#define FOREBAY_VERSION_MINOR 1
#define FOREBAY_VERSION_PATCH 0
#define FOREBAY_VERSION                                                        \
    (FOREBAY_VERSION_MAJOR * 1000000 + FOREBAY_VERSION_MINOR * 1000            \
     + FOREBAY_VERSION_PATCH)

/* The compiler warns if the result is ignored. */
#if defined(__GNUC__)
#define FOREBAY_MUST_CHECK __attribute__((__warn_unused_result__))
#else
#define FOREBAY_MUST_CHECK
#endif

/* Results of functions. For any but FOREBAY_OK, forebay_last_error() returns a
 * message. */
enum forebay_status {
    /* Success. */
    FOREBAY_OK = 0,
    /* A pointer is null or not aligned, a table is too long, tables overlap
     * that must not, a packet is outside its memory, or the engine's name is
     * unknown. */
    FOREBAY_INVALID_ARGUMENT = 1,
    /* The expression, the link type or the program is refused. */
    FOREBAY_BAD_FILTER = 2,
    /* This machine or its settings do not allow it: FOREBAY_ISA names a level
     * that the processor lacks, or an unknown one; or the system provides no
     * thread, no file or no executable memory. */
    FOREBAY_UNAVAILABLE = 3,
    /* A bug in the library. Filters and rules must still be freed. */
    FOREBAY_INTERNAL = 4,
    /* The rules are refused: a line, the selection of a list, or a list that the
     * engine does not support. */
    FOREBAY_BAD_RULES = 5
};

/* A compiled filter. */
typedef struct forebay_filter forebay_filter;

/* An instruction of a classic BPF program, with the layout of struct bpf_insn
 * and struct sock_filter. */
typedef struct forebay_instruction {
    uint16_t code; /* the operation */
    uint8_t jt;    /* instructions to skip if a test holds */
    uint8_t jf;    /* instructions to skip if it does not */
    uint32_t k;    /* the constant */
} forebay_instruction;

/* The library's version, as FOREBAY_VERSION. */
uint32_t forebay_version(void);

/* Compiles a filter expression; pcap-filter(7) describes the language.
 *
 * expression  zero-terminated text in UTF-8; "" keeps every packet
 * linktype    the link type of packets, a LINKTYPE_ value of capture files: 1 for
 *             Ethernet (https://www.tcpdump.org/linktypes.html)
 * filter      receives the filter, to be freed with forebay_free(); NULL on
 *             failure
 *
 * Host, port and protocol names are resolved, which may take time.
 *
 * Returns FOREBAY_OK or any other status. */
FOREBAY_MUST_CHECK
int forebay_compile(const char *expression, uint32_t linktype, forebay_filter **filter);

/* Compiles a classic BPF program, such as the result of pcap_compile().
 *
 * program  its instructions
 * count    their number
 * filter   as for forebay_compile()
 *
 * The program is verified first, by the rules of libpcap's bpf_validate().
 *
 * Returns FOREBAY_OK or any other status. */
FOREBAY_MUST_CHECK
int forebay_compile_program(const forebay_instruction *program, size_t count,
                            forebay_filter **filter);

/* Runs a filter over packets in one range of memory.
 *
 * filter        the filter
 * base          start of the memory; may be NULL if readable_len is 0
 * readable_len  bytes that may be read from base on; no others are. Pass the
 *               whole range, not only up to the last packet's end: packets that
 *               start near its end, usually less than 128 bytes before it, take
 *               a slower path
 * offset        start of each packet, in bytes from base
 * cap_len       captured bytes of each packet; offset + cap_len must not exceed
 *               readable_len
 * wire_len      length of each packet on the wire; may be the table cap_len
 * verdict       receives the verdict on each packet
 * count         number of elements of each of the four tables, which may be NULL
 *               if it is 0; any number, best a multiple of 256
 *
 * Packets may be in any order, overlap, and start at any address. For a single
 * packet, count is 1, base is its address, and its offset is 0.
 *
 * The memory and the tables must not be written by others during the call.
 * verdict must not overlap them. On success nothing is allocated and no lock is
 * taken, but for a thread's first call, if the library was opened by dlopen():
 * the loader then makes room for the thread's variables.
 *
 * Returns FOREBAY_OK; FOREBAY_INVALID_ARGUMENT, and has written no verdict; or
 * FOREBAY_INTERNAL, and verdicts are undefined. */
FOREBAY_MUST_CHECK
int forebay_filter_batch(const forebay_filter *filter, const void *base, size_t readable_len,
                         const uint32_t *offset, const uint32_t *cap_len,
                         const uint32_t *wire_len, uint32_t *verdict, size_t count);

/* Frees a filter, which no thread may use any more. NULL is allowed. */
void forebay_free(forebay_filter *filter);

/* One rule list, ready for matching. */
typedef struct forebay_rules forebay_rules;

/* Results of forebay_rules_match() other than the index of a rule. */
/* No rule matches: the list's default applies. */
#define FOREBAY_NO_RULE 0xffffffffu
/* The list does not apply to this packet: it is not IP, or was truncated within
 * its addresses. */
#define FOREBAY_NOT_IP 0xfffffffeu

/* Parses a rule list and prepares it for matching.
 *
 * text    rules in one of the languages described in docs/rule-lists.md, detected
 *         from the text; may be NULL if length is 0
 * length  length of text in bytes
 * list    selects one of the text's lists: the name of an access list or a chain,
 *         or interface and direction, as in "lan1:in". NULL for the only one, or,
 *         if a text of YAMAHA routers applies no rules to an interface, for all
 *         rules in order of their numbers
 * engine  the matching engine: naive, list, pe, pe-generic, pe-1, ems, tree or
 *         auto. They differ only in speed and in the lists that they support.
 *         NULL for auto, which chooses by list and machine
 * rules   receives the rules, to be freed with forebay_rules_free(); NULL on
 *         failure
 *
 * Returns FOREBAY_OK or any other status. On FOREBAY_BAD_RULES,
 * forebay_last_error() names the line, the missing list, or what the engine does
 * not support. */
FOREBAY_MUST_CHECK
int forebay_rules_new(const char *text, size_t length, const char *list, const char *engine,
                      forebay_rules **rules);

/* Finds the first matching rule of each packet, for packets in one range of
 * memory.
 *
 * rules         the rules
 * linktype      the link type of packets, as for forebay_compile(). Packets of
 *               types that are not decoded are FOREBAY_NOT_IP
 * base          start of the memory; may be NULL if readable_len is 0
 * readable_len  bytes that may be read from base on; no others are
 * offset        start of each packet, in bytes from base
 * cap_len       captured bytes of each packet; offset + cap_len must not exceed
 *               readable_len
 * rule          receives for each packet the index of the rule, from 0 for the
 *               list's first, or FOREBAY_NO_RULE or FOREBAY_NOT_IP
 * count         number of elements of each of the three tables, which may be
 *               NULL if it is 0; any number, best a multiple of 1024
 *
 * Packets may be in any order, overlap, and start at any address. The memory and
 * the tables must not be written by others during the call. rule must not
 * overlap them. No lock is taken.
 *
 * Returns FOREBAY_OK; FOREBAY_INVALID_ARGUMENT, and has written no result; or
 * FOREBAY_INTERNAL, and results are undefined. */
FOREBAY_MUST_CHECK
int forebay_rules_match(const forebay_rules *rules, uint32_t linktype, const void *base,
                        size_t readable_len, const uint32_t *offset, const uint32_t *cap_len,
                        uint32_t *rule, size_t count);

/* The number of rules of the list; 0 for NULL. */
size_t forebay_rules_count(const forebay_rules *rules);

/* The number of the rule at an index, as in the text: unique among the rules of
 * one IP version. FOREBAY_NO_RULE if there is no such rule. */
uint32_t forebay_rules_number(const forebay_rules *rules, uint32_t index);

/* The IP version of the rule at an index, 4 or 6. 0 if there is no such rule. */
int forebay_rules_ip_version(const forebay_rules *rules, uint32_t index);

/* Whether a result of forebay_rules_match() passes the packet: 1 if so, 0 if it is
 * rejected. FOREBAY_NO_RULE gives the default, which is to reject, except in a
 * chain with the policy to accept; FOREBAY_NOT_IP passes. 0 for invalid results,
 * and if rules is NULL. */
int forebay_rules_passes(const forebay_rules *rules, uint32_t index);

/* Frees rules, which no thread may use any more. NULL is allowed. */
void forebay_rules_free(forebay_rules *rules);

/* The message of this thread's last failed call, in English, on one line or, with
 * the position in an expression, on three; "" if none has failed. Successful
 * calls do not change it. Never NULL, and not to be freed. Valid until the next
 * failed call of this thread, or the thread's end. */
const char *forebay_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
