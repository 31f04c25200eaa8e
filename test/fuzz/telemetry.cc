/*
 * Fuzz target: a telemetry file, which vqp-top reads as root. Whatever the parser takes
 * can be read completely, inside of the file: a sanitizer sees what is outside. Names
 * and texts are terminated and printable. Latency histograms have limits that grow, and a
 * percentile among them.
 */
#include "fuzz.h"

#include <memory>

extern "C" {
#include "core/telemetry/telemetry.h"
#include "tools/telelat.h"
}

static void check_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);

    FUZZ_CHECK(length < size);
    for (size_t i = 0; i < length; ++i) {
        FUZZ_CHECK((text[i] >= ' ') && (text[i] <= '~'));
        FUZZ_CHECK((text[i] != '"') && (text[i] != '\\'));
    }
}

static void check_field(const vqp_telemetry_t &tele, const vqp_telemetry_field_t &field,
                        const char *begin, const char *end)
{
    auto level     = (vqp_telemetry_level_t)field.level;
    uint32_t conns = (level == VQP_TELEMETRY_IFACE) ? 1 : tele.head.num_conns;
    uint32_t paths = (level == VQP_TELEMETRY_PATH) ? tele.head.num_paths : 1;
    vqp_telemetry_field_t found;
    char text[48];

    check_text(field.name, sizeof(field.name));
    check_text(field.help, sizeof(field.help));
    FUZZ_CHECK(vqp_telemetry_find(&tele, level, field.name, &found));
    FUZZ_CHECK((found.offset == field.offset) && (found.type == field.type));
    for (uint32_t conn = 0; conn < conns; ++conn) {
        for (uint32_t path = 0; path < paths; ++path) {
            const char *record = vqp_telemetry_record(&tele, level, conn, path);

            FUZZ_CHECK((record >= begin) && (record + field.offset + field.size <= end));
            if (field.type == VQP_TELEMETRY_TEXT) {
                vqp_telemetry_text(&field, record, text, sizeof(text));
                check_text(text, sizeof(text));
            } else {
                (void)vqp_telemetry_number(&field, record);
            }
        }
    }
}

static void check_latency(const vqp_telemetry_t &tele, uint32_t conn, uint32_t path)
{
    const char *record = vqp_telemetry_record(&tele, VQP_TELEMETRY_PATH, conn, path);
    telelat_t latency;
    char text[32];

    FUZZ_CHECK(telelat_read(&latency, &tele, record) == (latency.num > 0));
    FUZZ_CHECK(latency.num <= TELELAT_BUCKETS);
    for (unsigned i = 1; i < latency.num; ++i) {
        FUZZ_CHECK(latency.buckets[i - 1].limit < latency.buckets[i].limit);
    }
    for (unsigned percent = 0; percent <= 100; percent += 50) {
        check_text(telelat_percentile(&latency, percent, text, sizeof(text)), sizeof(text));
    }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    std::unique_ptr<char[]> copy(new char[size]);
    vqp_telemetry_t tele;

    memcpy(copy.get(), data, size);
    if (vqp_telemetry_parse(&tele, copy.get(), size) < VQP_OK) {
        return 0;
    }

    check_text(tele.head.host, sizeof(tele.head.host));
    check_text(tele.head.command, sizeof(tele.head.command));
    check_text(tele.head.device, sizeof(tele.head.device));
    /* so what a reader prints is bounded by the size of the file */
    FUZZ_CHECK(8ul * tele.head.num_conns * (1 + tele.head.num_paths) <= size);
    for (uint32_t i = 0; i < tele.head.num_fields; ++i) {
        check_field(tele, vqp_telemetry_field(&tele, i), copy.get(), copy.get() + size);
    }
    for (uint32_t conn = 0; conn < tele.head.num_conns; ++conn) {
        for (uint32_t path = 0; path < tele.head.num_paths; ++path) {
            check_latency(tele, conn, path);
        }
    }
    return 0;
}
