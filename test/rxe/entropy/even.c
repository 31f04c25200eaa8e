/*
 * even: would a network spread these flows evenly? Reads what flows printed,
 * and puts each flow on one of 2, 4 and 8 links as a switch does, by a hash of
 * addresses and ports, for several hashes. Prints counts and chi-square.
 *
 * Status: 0 all are even; 1 some are not, which chance alone causes once in
 * 100,000 runs; 2 wrong input. libc only.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FLOWS   = 1 << 16,
    TUPLE_BYTES = 12, /* source, destination, both ports */
    MAX_LINKS   = 8,
    ROCE_PORT   = 4791
};

typedef struct hash {
    const char *name;
    uint32_t  (*func)(const uint8_t *tuple);
} hash_t;

static uint32_t hash_xor(const uint8_t *tuple)
{
    uint32_t sum = 0;
    int i;

    for (i = 0; i < TUPLE_BYTES; ++i) {
        sum ^= tuple[i];
    }
    return sum;
}

static uint32_t hash_crc16(const uint8_t *tuple)
{
    uint32_t crc = 0xffff;
    int i, bit;

    for (i = 0; i < TUPLE_BYTES; ++i) {
        crc ^= (uint32_t)tuple[i] << 8;
        for (bit = 0; bit < 8; ++bit) {
            crc = (crc & 0x8000) ? (crc << 1) ^ 0x1021 : crc << 1;
        }
    }
    return crc & 0xffff;
}

static uint32_t hash_crc32(const uint8_t *tuple)
{
    uint32_t crc = ~0u;
    int i, bit;

    for (i = 0; i < TUPLE_BYTES; ++i) {
        crc ^= tuple[i];
        for (bit = 0; bit < 8; ++bit) {
            crc = (crc & 1) ? (crc >> 1) ^ 0xedb88320 : crc >> 1;
        }
    }
    return ~crc;
}

static uint8_t tuples[MAX_FLOWS][TUPLE_BYTES];

/* A line that repeats a flow for another queue pair is one of its own: it
 * carries traffic of its own */
static unsigned read_flows(unsigned *num_ports)
{
    static uint8_t seen[1 << 16];
    char src[64], dst[64], line[256];
    unsigned port, num = 0;

    *num_ports = 0;
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if ((num == MAX_FLOWS) ||
            (sscanf(line, "%63s %u %63s", src, &port, dst) != 3) ||
            (port > UINT16_MAX) ||
            (inet_pton(AF_INET, src, tuples[num]) != 1) ||
            (inet_pton(AF_INET, dst, tuples[num] + 4) != 1)) {
            fprintf(stderr, "even: not a flow: %s", line);
            exit(2);
        }
        tuples[num][8]  = (uint8_t)(port >> 8);
        tuples[num][9]  = (uint8_t)port;
        tuples[num][10] = ROCE_PORT >> 8;
        tuples[num][11] = ROCE_PORT & 0xff;
        *num_ports     += !seen[port];
        seen[port]      = 1;
        ++num;
    }
    return num;
}

/* Returns 1 if even */
static int test(const hash_t *hash, unsigned links, unsigned num, double limit)
{
    unsigned count[MAX_LINKS] = {0};
    double expected           = (double)num / links;
    double chi                = 0;
    unsigned i;

    for (i = 0; i < num; ++i) {
        ++count[hash->func(tuples[i]) % links];
    }

    printf("%-6s %u links:", hash->name, links);
    for (i = 0; i < links; ++i) {
        chi += (count[i] - expected) * (count[i] - expected) / expected;
        printf(" %u", count[i]);
    }
    printf("; chi-square %.1f, limit %.1f%s\n", chi, limit,
           (chi > limit) ? ": UNEVEN" : "");
    return chi <= limit;
}

int main(void)
{
    static const hash_t hashes[] = {
        {"xor", hash_xor}, {"crc16", hash_crc16}, {"crc32", hash_crc32}
    };
    /* exceeded with probability 10^-6: 1, 3, 7 degrees of freedom */
    static const double limits[] = {23.9, 30.7, 40.5};
    unsigned i, j, num, num_ports;
    int even = 1;

    num = read_flows(&num_ports);
    printf("%u flows, %u source ports\n", num, num_ports);
    if (num == 0) {
        return 2;
    }

    for (i = 0; i < sizeof(hashes) / sizeof(hashes[0]); ++i) {
        for (j = 0; j < 3; ++j) {
            even &= test(&hashes[i], 2u << j, num, limits[j]);
        }
    }
    return !even;
}
