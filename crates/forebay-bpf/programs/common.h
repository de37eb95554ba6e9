/* What all programs include. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "layout.h"

/* A number that is fixed when the program is loaded; the verifier removes what depends on it. */
#define SETTING const volatile __u64

/* A map of this name, which the loader creates and links: its type and sizes are defined there. */
#define MAP(name) struct { __u32 unused[5]; } name SEC("maps")

/* Memory of this name that the process maps, too, and links. The number of elements of an
 * array is defined there. */
#define SHARED(name) SEC(".bss." #name)

/* The value before; `new` is written if it was `old`. */
#define COMPARE_EXCHANGE(at, old, new) __sync_val_compare_and_swap(at, old, new)

/* Element `index` of shared memory, of which the compiler knows no length. */
#define ELEMENT(memory, index) ({ \
    typeof(&(memory)[0]) base = memory; \
    asm("" : "+r"(base)); \
    base + (index); \
})
