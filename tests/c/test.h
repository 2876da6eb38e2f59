/* C tests: each TEST(name_as_a_sentence) { ... } registers itself; tests/c/run.c runs them.
 *
 * EXPECT...   counts a failure and goes on
 * REQUIRE     counts a failure and leaves the function (void functions only)
 * Paths are relative to the repository's root, natively and in wasm. */
#ifndef HL_TEST_H
#define HL_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
    const char *name; /* words joined by underscores */
    const char *file;
    void (*run)(void);
    struct test *next;
};

void test_register(struct test *t);
void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Says aloud that the running test did not check what its name says, and why. */
void test_skip(const char *why);

/* The whole file in a heap buffer of exactly *size bytes (1 when empty), to be freed by the caller.
 * Ends the run when the file cannot be read: a test without its data must not pass. */
uint8_t *test_read_file(const char *path, size_t *size);

/* Deterministic random numbers; state is any seed. Uniform in [0, 2^32) and in [-1, 1). */
uint32_t test_random(uint64_t *state);
float test_random_float(uint64_t *state);

#define TEST(NAME)                                                                                           \
    static void NAME(void);                                                                                  \
    __attribute__((constructor)) static void register_##NAME(void) {                                         \
        static struct test t = {#NAME, __FILE__, NAME, NULL};                                                \
        test_register(&t);                                                                                   \
    }                                                                                                        \
    static void NAME(void)

#define EXPECT(COND)                                                                                         \
    do {                                                                                                     \
        if (!(COND)) test_fail(__FILE__, __LINE__, "%s", #COND);                                             \
    } while (0)

#define REQUIRE(COND)                                                                                        \
    do {                                                                                                     \
        if (!(COND)) {                                                                                       \
            test_fail(__FILE__, __LINE__, "%s", #COND);                                                      \
            return;                                                                                          \
        }                                                                                                    \
    } while (0)

/* Integers of any type that fits long long. */
#define EXPECT_EQ(GOT, WANT)                                                                                 \
    do {                                                                                                     \
        long long got_ = (long long)(GOT), want_ = (long long)(WANT);                                        \
        if (got_ != want_) test_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #GOT, got_, want_);         \
    } while (0)

/* |got - want| <= tolerance; NaN is never near. */
#define EXPECT_NEAR(GOT, WANT, TOLERANCE)                                                                    \
    do {                                                                                                     \
        double got_ = (double)(GOT), want_ = (double)(WANT), off_ = fabs(got_ - want_);                      \
        if (!(off_ <= (double)(TOLERANCE)))                                                                  \
            test_fail(__FILE__, __LINE__, "%s is %.9g, not %.9g (off by %.3g)", #GOT, got_, want_, off_);    \
    } while (0)

#define EXPECT_STR(GOT, WANT)                                                                                \
    do {                                                                                                     \
        const char *got_ = (GOT), *want_ = (WANT);                                                           \
        if (!got_ || strcmp(got_, want_) != 0)                                                               \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #GOT, got_ ? got_ : "(null)", want_);  \
    } while (0)

#define EXPECT_CONTAINS(GOT, PART)                                                                           \
    do {                                                                                                     \
        const char *got_ = (GOT), *part_ = (PART);                                                           \
        if (!got_ || !strstr(got_, part_))                                                                   \
            test_fail(__FILE__, __LINE__, "%s is \"%s\", without \"%s\"", #GOT, got_ ? got_ : "(null)",      \
                      part_);                                                                                \
    } while (0)

/* The same n bytes; says where the first difference is. */
#define EXPECT_MEM(GOT, WANT, N)                                                                             \
    do {                                                                                                     \
        const uint8_t *got_ = (const uint8_t *)(GOT), *want_ = (const uint8_t *)(WANT);                      \
        size_t n_ = (size_t)(N), at_ = 0;                                                                    \
        while (at_ < n_ && got_[at_] == want_[at_]) at_++;                                                   \
        if (at_ < n_)                                                                                        \
            test_fail(__FILE__, __LINE__, "%s: byte %zu of %zu is 0x%02x, not 0x%02x", #GOT, at_, n_,        \
                      got_[at_], want_[at_]);                                                                \
    } while (0)

#endif
