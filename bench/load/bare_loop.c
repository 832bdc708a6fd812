// What a machine takes from any paced program: a loop that is to wake RATE times a second for SECONDS, and does nothing
// else. It sleeps until SPIN_US before the time, then spins; with 0 it only sleeps.
//
//     bare_loop RATE SECONDS SPIN_US
//
// Prints one JSON object: how late it woke, and how its wakes were spaced, as `nearmetal-probe serve --arrivals` prints
// the spacing of arrivals.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static const long long second = 1000000000LL;

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * second + time.tv_nsec;
}

static void sleep_until(long long due) {
    struct timespec time = {due / second, due % second};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static int compare(const void *one, const void *other) {
    long long a = *(const long long *)one, b = *(const long long *)other;
    return (a > b) - (a < b);
}

static void print(const char *name, long long *values, long count) {
    qsort(values, count, sizeof *values, compare);
    printf("\"%s\": {\"p50\": %lld, \"p99\": %lld, \"max\": %lld}", name, values[(count - 1) / 2],
           values[(long)((count - 1) * 0.99)], values[count - 1]);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    double rate = atof(argv[1]);
    long count = (long)(rate * atof(argv[2]));
    long long spun = atol(argv[3]) * 1000LL;
    if (count < 2) return 2;
    long long *lateness = calloc(count, sizeof *lateness), *spacing = calloc(count, sizeof *spacing);
    if (!lateness || !spacing) return 1;
    // Without it the kernel may let a sleep end 50 us late, to wake once for two timers.
    prctl(PR_SET_TIMERSLACK, 1);
    long long begun = now() + 1000000, first = 0, last = 0;
    for (long at = 0; at < count; at++) {
        long long due = begun + (long long)(at * (second / rate)), time = now();
        if (due - spun > time) sleep_until(due - spun);
        while ((time = now()) < due) continue;
        lateness[at] = time - due;
        if (at) spacing[at - 1] = time - last;
        else first = time;
        last = time;
    }
    double mean = (double)(last - first) / (count - 1), squares = 0;
    for (long at = 0; at < count - 1; at++) squares += (spacing[at] - mean) * (spacing[at] - mean);
    printf("{");
    print("lateness_ns", lateness, count);
    printf(", ");
    print("spacing_ns", spacing, count - 1);
    printf(", \"spacing_cv\": %.4f, \"rate\": %.2f}\n", sqrt(squares / (count - 1)) / mean, second / mean);
    return 0;
}
