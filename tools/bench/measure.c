#include "tools/bench/measure.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/table.h"

double measure_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

double measure_cpu_us(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e6 +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static int measure_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double measure_percentile(double *samples, size_t count, double p)
{
    qsort(samples, count, sizeof(*samples), measure_ascending);
    return samples[(size_t)((double)(count - 1) * p)];
}

void measure_pause(long pause_us)
{
    if (pause_us)
        usleep((unsigned)(pause_us / 2 + random() % pause_us));
}

void measure_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

long measure_number(const char *text, long least)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || n < least) {
        fprintf(stderr, "bench: '%s' is not a whole number of at least %ld\n", text, least);
        exit(64);
    }
    return n;
}

/* --- what measurements through the library share ---------------------------------------------- */

/* Functions that measurements through the library share. */

void library_must(int rc, const char *what)
{
    if (rc < 0)
        measure_die("%s: %s: %s", what, hf_strerror(rc), hf_last_message());
}

hf_client *library_connect(const char *agent)
{
    hf_client *client;

    library_must(hf_connect(agent, &client), agent);
    return client;
}

void library_name(char ret_name[LIBRARY_NAME_LEN + 1], const char *prefix, long i)
{
    int digits = LIBRARY_NAME_LEN - 1 - (int)strlen(prefix);

    if (digits < 8)
        measure_die("the prefix '%s' is too long", prefix);
    snprintf(ret_name, LIBRARY_NAME_LEN + 1, "%s/%0*ld", prefix, digits, i);
}

/* --- memory that processes share -------------------------------------------------------------- */

void *share_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        measure_die("no memory of %zu bytes to share", size);
    return memory;
}

void share_wait(_Atomic uint32_t *word, uint32_t while_it_is)
{
    while (atomic_load(word) == while_it_is)
        syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, NULL, NULL, 0);
}

void share_store(_Atomic uint32_t *word, uint32_t value)
{
    atomic_store(word, value);
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --- the kernel's counters -------------------------------------------------------------------- */

/* An agent's counters, read from its table: unlike `holdfast status` this costs nothing, whatever is held. */

int bench_counters(int argc, char **argv)
{
    char shm_name[HF_TABLE_NAME_MAX], why[256] = "";
    struct hf_table table;

    if (argc != 2) {
        fputs("usage: bench counters AGENT\n", stderr);
        return 64;
    }
    if (hf_table_name(argv[1], false, geteuid(), shm_name) < 0 ||
        hf_table_open(shm_name, geteuid(), &table, why, sizeof(why)) < 0)
        measure_die("%s: %s", argv[1], why);
    for (uint32_t i = 0; i < table.counter_count; i++)
        printf("%s\"%s\":%" PRIu64, i ? "," : "{", hf_counter_name((enum hf_counter)i),
               hf_counter_read(&table, (enum hf_counter)i));
    puts("}");
    hf_table_close(&table);
    return 0;
}
