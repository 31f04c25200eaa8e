/* The format of the telemetry file: the table of fields, and a reader that believes
 * nothing. */
#include <gtest/gtest.h>

#include <string.h>

#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "core/telemetry/telefields.h"
}

namespace {

class telemetry : public ::testing::Test {
protected:
    static constexpr unsigned conns = 3, paths = 2;

    void SetUp() override
    {
        uint32_t num;
        const vqp_telemetry_field_t *fields = vqp_telemetry_fields(&num);
        vqp_telemetry_head_t head;

        vqp_telemetry_head_init(&head, paths);
        head.num_conns  = conns;
        head.sequence = 2;
        strcpy(head.command, "program");
        add(&head, sizeof(head));
        add(fields, num * sizeof(*fields));
        vqp_telemetry_iface_t iface {};
        iface.num_vqps = conns;
        add(&iface, sizeof(iface));
        for (unsigned i = 0; i < conns; ++i) {
            add_conn(i);
        }
    }

    void add_conn(unsigned i)
    {
        vqp_telemetry_conn_t conn {};

        conn.vqp       = 100 + i;
        conn.stats.ops = 1000 + i;
        strcpy(conn.state, "LIVE");
        add(&conn, sizeof(conn));
        for (unsigned j = 0; j < paths; ++j) {
            vqp_telemetry_path_t path {};

            memset(path.device, 'd', sizeof(path.device)); /* not terminated */
            path.rate        = 10 * i + j;
            path.stats.bytes = 7;
            add(&path, sizeof(path));
        }
    }

    void add(const void *data, size_t length)
    {
        m_file.append((const char*)data, length);
    }

    vqp_telemetry_head_t *head() { return (vqp_telemetry_head_t*)&m_file[0]; }

    vqp_telemetry_field_t *field(unsigned i)
    {
        return (vqp_telemetry_field_t*)&m_file[head()->head_size] + i;
    }

    /* The copy has exactly the size of the file: a sanitizer sees what reads beyond */
    vqp_status_t parse(const std::string &file)
    {
        m_copy.assign(file.begin(), file.end());
        m_copy.shrink_to_fit();
        return vqp_telemetry_parse(&m_tele, m_copy.data(), m_copy.size());
    }

    vqp_status_t parse() { return parse(m_file); }

    /* Read all that a parsed file has */
    uint64_t read_all()
    {
        uint64_t sum = 0;
        char text[40];

        for (uint32_t i = 0; i < m_tele.head.num_fields; ++i) {
            vqp_telemetry_field_t each = vqp_telemetry_field(&m_tele, i);
            auto level      = (vqp_telemetry_level_t)each.level;
            uint32_t num    = (level == VQP_TELEMETRY_IFACE) ? 1 : m_tele.head.num_conns;
            uint32_t inner  = (level == VQP_TELEMETRY_PATH) ? m_tele.head.num_paths : 1;

            for (uint32_t c = 0; c < num; ++c) {
                for (uint32_t p = 0; p < inner; ++p) {
                    const char *record = vqp_telemetry_record(&m_tele, level, c, p);

                    if (each.type == VQP_TELEMETRY_TEXT) {
                        vqp_telemetry_text(&each, record, text, sizeof(text));
                        EXPECT_LT(strlen(text), sizeof(text));
                    } else {
                        sum += vqp_telemetry_number(&each, record);
                    }
                }
            }
        }
        return sum;
    }

    uint64_t number(vqp_telemetry_level_t level, const char *name, unsigned conn,
                    unsigned path)
    {
        vqp_telemetry_field_t found;

        EXPECT_TRUE(vqp_telemetry_find(&m_tele, level, name, &found)) << name;
        return vqp_telemetry_number(&found, vqp_telemetry_record(&m_tele, level, conn,
                                                                 path));
    }

    std::string       m_file;
    std::vector<char> m_copy;
    vqp_telemetry_t   m_tele;
};

TEST_F(telemetry, each_field_is_inside_of_its_record_and_has_no_other_in_it) {
    uint32_t num;
    const vqp_telemetry_field_t *fields = vqp_telemetry_fields(&num);
    std::set<std::pair<unsigned, unsigned>> bytes;

    for (uint32_t i = 0; i < num; ++i) {
        ASSERT_LE(fields[i].offset + fields[i].size,
                  head()->record_size[fields[i].level]);
        EXPECT_EQ('\0', fields[i].help[sizeof(fields[i].help) - 1]) << fields[i].name;
        for (unsigned j = 0; j < fields[i].size; ++j) {
            EXPECT_TRUE(bytes.insert({fields[i].level, fields[i].offset + j}).second)
                    << fields[i].name;
        }
    }
    /* no byte of a record is without a field */
    EXPECT_EQ(sizeof(vqp_telemetry_iface_t) + sizeof(vqp_telemetry_conn_t) +
              sizeof(vqp_telemetry_path_t), bytes.size());
}

TEST_F(telemetry, a_reader_finds_each_record_by_the_names_of_its_fields) {
    ASSERT_EQ(VQP_OK, parse());
    EXPECT_STREQ("program", m_tele.head.command);
    EXPECT_EQ(conns, number(VQP_TELEMETRY_IFACE, "num_vqps", 0, 0));
    for (unsigned i = 0; i < conns; ++i) {
        EXPECT_EQ(100 + i, number(VQP_TELEMETRY_CONN, "vqp", i, 0));
        EXPECT_EQ(1000 + i, number(VQP_TELEMETRY_CONN, "ops", i, 0));
        for (unsigned j = 0; j < paths; ++j) {
            EXPECT_EQ(10 * i + j, number(VQP_TELEMETRY_PATH, "rate", i, j));
            EXPECT_EQ(7u, number(VQP_TELEMETRY_PATH, "bytes", i, j));
        }
    }

    vqp_telemetry_field_t none;
    EXPECT_FALSE(vqp_telemetry_find(&m_tele, VQP_TELEMETRY_IFACE, "rate", &none));
}

TEST_F(telemetry, larger_structures_of_a_later_version_are_read) {
    std::string file;
    uint32_t num = head()->num_fields;

    head()->head_size  += 24;
    head()->field_size += 8;
    file.assign(m_file, 0, sizeof(vqp_telemetry_head_t));
    file.append(24, 'h');
    for (uint32_t i = 0; i < num; ++i) {
        file.append(m_file, sizeof(vqp_telemetry_head_t) +
                            i * sizeof(vqp_telemetry_field_t),
                    sizeof(vqp_telemetry_field_t));
        file.append(8, 'f');
    }
    file.append(m_file, sizeof(vqp_telemetry_head_t) +
                        num * sizeof(vqp_telemetry_field_t), std::string::npos);
    ASSERT_EQ(VQP_OK, parse(file));
    EXPECT_EQ(1002u, number(VQP_TELEMETRY_CONN, "ops", 2, 0));
    EXPECT_EQ(21u, number(VQP_TELEMETRY_PATH, "rate", 2, 1));
}

TEST_F(telemetry, an_odd_sequence_says_that_records_may_be_torn) {
    head()->sequence = 3;
    EXPECT_EQ(VQP_INPROGRESS, parse());
    EXPECT_EQ(1002u, number(VQP_TELEMETRY_CONN, "ops", 2, 0));
}

TEST_F(telemetry, another_version_or_byte_order_is_not_read) {
    head()->version = VQP_TELEMETRY_VERSION + 1;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, parse());
    head()->version = VQP_TELEMETRY_VERSION;
    head()->endian  = 0x04030201;
    EXPECT_EQ(VQP_ERR_UNSUPPORTED, parse());
}

TEST_F(telemetry, a_truncated_file_is_refused_at_every_length) {
    for (size_t length = 0; length < m_file.size(); ++length) {
        ASSERT_EQ(VQP_ERR_PROTOCOL, parse(m_file.substr(0, length))) << length;
    }
    EXPECT_EQ(VQP_OK, parse());
}

TEST_F(telemetry, sizes_that_wrap_or_are_too_small_are_refused) {
    for (uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
        std::string good = m_file;

        for (uint32_t *size : {&head()->head_size, &head()->field_size}) {
            uint32_t before = *size;

            *size = value;
            EXPECT_EQ(VQP_ERR_PROTOCOL, parse()) << value;
            *size = before;
        }
        for (uint32_t *size : {&head()->num_fields, &head()->num_paths,
                               &head()->num_conns, &head()->record_size[0],
                               &head()->record_size[1], &head()->record_size[2]}) {
            uint32_t before = *size;

            *size = value;
            if (value > 1) {
                EXPECT_EQ(VQP_ERR_PROTOCOL, parse()) << value;
            } else if (parse() >= 0) {
                read_all();
            }
            *size = before;
        }
        EXPECT_EQ(good, m_file);
    }
}

TEST_F(telemetry, records_without_bytes_are_refused) {
    head()->num_fields = 0;
    EXPECT_EQ(VQP_OK, parse());
    for (auto level : {VQP_TELEMETRY_CONN, VQP_TELEMETRY_PATH}) {
        uint32_t before = head()->record_size[level];

        head()->record_size[level] = 7;
        EXPECT_EQ(VQP_ERR_PROTOCOL, parse());
        head()->record_size[level] = before;
    }
}

TEST_F(telemetry, a_field_that_leaves_its_record_is_refused) {
    uint32_t last = head()->num_fields - 1;

    field(last)->offset = sizeof(vqp_telemetry_path_t) - 7;
    EXPECT_EQ(VQP_ERR_PROTOCOL, parse());
    field(last)->offset = 0xfffffff8;
    EXPECT_EQ(VQP_ERR_PROTOCOL, parse());
    field(last)->offset = sizeof(vqp_telemetry_path_t) - 8;
    EXPECT_EQ(VQP_OK, parse());
    field(last)->size = 4;
    EXPECT_EQ(VQP_ERR_PROTOCOL, parse());
    field(last)->size = 8;
    field(last)->level = VQP_TELEMETRY_LEVELS;
    EXPECT_EQ(VQP_ERR_PROTOCOL, parse());
    field(last)->level = VQP_TELEMETRY_PATH;
    field(last)->type  = VQP_TELEMETRY_TYPES;
    EXPECT_EQ(VQP_ERR_PROTOCOL, parse());
}

TEST_F(telemetry, names_that_are_none_or_come_twice_are_refused) {
    for (const char *name : {"", "1a", "A", "a-b", "a b", "a\n", "a\"", "num_vqps"}) {
        char before[sizeof(field(1)->name)];

        memcpy(before, field(1)->name, sizeof(before));
        snprintf(field(1)->name, sizeof(field(1)->name), "%s", name);
        EXPECT_EQ(VQP_ERR_PROTOCOL, parse()) << name;
        memcpy(field(1)->name, before, sizeof(before));
    }
    memset(field(1)->name, 'a', sizeof(field(1)->name)); /* not terminated */
    EXPECT_EQ(VQP_ERR_PROTOCOL, parse());
}

TEST_F(telemetry, texts_are_terminated_and_printable) {
    vqp_telemetry_field_t found;
    char text[64];

    memcpy(head()->command, "\033[2J\"\\\n\200 full, no end", sizeof(head()->command));
    memset(field(0)->help, '\t', sizeof(field(0)->help));
    ASSERT_EQ(VQP_OK, parse());
    EXPECT_STREQ("?[2J???? full, ", m_tele.head.command);
    EXPECT_EQ(std::string(sizeof(found.help) - 1, '?'),
              vqp_telemetry_field(&m_tele, 0).help);
    ASSERT_TRUE(vqp_telemetry_find(&m_tele, VQP_TELEMETRY_PATH, "device", &found));
    vqp_telemetry_text(&found, vqp_telemetry_record(&m_tele, VQP_TELEMETRY_PATH, 0, 0),
                       text, sizeof(text));
    EXPECT_EQ(std::string(32, 'd'), text);
    vqp_telemetry_text(&found, vqp_telemetry_record(&m_tele, VQP_TELEMETRY_PATH, 0, 0),
                       text, 5);
    EXPECT_STREQ("dddd", text);
}

/* Whatever is accepted can be read: with a sanitizer this finds what is outside */
TEST_F(telemetry, damaged_files_are_refused_or_read) {
    size_t front = sizeof(vqp_telemetry_head_t) + 4 * sizeof(vqp_telemetry_field_t);
    std::mt19937 random(1);
    unsigned accepted = 0, refused = 0;

    for (unsigned i = 0; i < 20000; ++i) {
        std::string file = m_file;

        for (unsigned n = 1 + random() % 3; n > 0; --n) {
            size_t place = (random() % 2) ? random() % front : random() % file.size();

            file[place] = (random() % 2) ? (char)random() : (char)(file[place] ^ 1);
        }
        if (random() % 4 == 0) {
            file.resize(random() % (file.size() + 1));
        }
        if (parse(file) >= VQP_OK) {
            ++accepted;
            read_all();
        } else {
            ++refused;
        }
    }
    EXPECT_GT(accepted, 1000u);
    EXPECT_GT(refused, 1000u);
}

} // namespace
