/* Runs the registered tests. Arguments: -v prints every name; other words keep only the tests whose file or
 * name holds one. */
#include "test.h"

#include <stdarg.h>

static struct test *tests; /* in order of file and registration */
static const struct test *current;
static bool current_failed;
static bool current_skipped;

void test_register(struct test *t) {
    struct test **at = &tests;
    while (*at && strcmp((*at)->file, t->file) <= 0) at = &(*at)->next;
    t->next = *at;
    *at = t;
}

static void print_sentence(const char *name) {
    for (; *name; name++) putchar(*name == '_' ? ' ' : *name);
}

void test_fail(const char *file, int line, const char *format, ...) {
    if (!current_failed) {
        printf("FAILED: ");
        print_sentence(current->name);
        putchar('\n');
    }
    current_failed = true;
    printf("    %s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void test_skip(const char *why) {
    printf("SKIPPED: ");
    print_sentence(current->name);
    printf(" (%s)\n", why);
    current_skipped = true;
}

uint8_t *test_read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        printf("cannot open %s: tests run from the repository's root\n", path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    long end = ftell(f);
    rewind(f);
    *size = end < 0 ? 0 : (size_t)end;
    uint8_t *bytes = malloc(*size ? *size : 1);
    if (!bytes || fread(bytes, 1, *size, f) != *size) {
        printf("cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return bytes;
}

/* Knuth's 64-bit linear congruential generator (MMIX); the high half is good enough for test data. */
uint32_t test_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

float test_random_float(uint64_t *state) {
    return (float)(int32_t)(test_random(state) & ~0xffu) / 2147483648.0f;
}

static bool is_wanted(const struct test *t, int argc, char **argv) {
    bool filtered = false;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') continue;
        if (strstr(t->name, argv[i]) || strstr(t->file, argv[i])) return true;
        filtered = true;
    }
    return !filtered;
}

static bool is_verbose(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-v") == 0) return true;
    return false;
}

int main(int argc, char **argv) {
    int n_passed = 0, n_failed = 0, n_skipped = 0;
    bool verbose = is_verbose(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 1024);
    for (current = tests; current; current = current->next) {
        if (!is_wanted(current, argc, argv)) continue;
        current_failed = current_skipped = false;
        if (verbose) {
            print_sentence(current->name);
            putchar('\n');
        }
        current->run();
        n_failed += current_failed;
        n_skipped += current_skipped && !current_failed;
        n_passed += !current_failed && !current_skipped;
    }
    printf("%d passed, %d failed", n_passed, n_failed);
    if (n_skipped) printf(", %d skipped", n_skipped);
    putchar('\n');
    bool skip_is_failure = n_skipped && getenv("CI");
    if (skip_is_failure) printf("in CI a skipped test is a failure\n");
    return n_failed || skip_is_failure || n_passed + n_skipped == 0;
}
