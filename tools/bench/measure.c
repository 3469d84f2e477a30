#include "tools/bench/measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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
