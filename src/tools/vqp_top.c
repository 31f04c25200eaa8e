/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vqp-top: shows the telemetry files of this host. Independent of UCX and of libibverbs:
 * libc and the format in src/core only.
 */
#include "tools/teleout.h"
#include "tools/teleset.h"
#include "tools/topkeys.h"

#include "vqp_version.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct vqp_top {
    teleset_t      set;
    char         **places;     /* directories and files, or NULL: where they are */
    const char    *prometheus; /* file, "-": stdout, or NULL */
    int            is_json;
    int            is_clean;
    double         delay;      /* seconds */
    unsigned long  count;      /* refreshes; 0: no limit */
    teleout_sort_t sort;
    size_t         skipped;    /* lines of the table above the screen */
    int            is_help;    /* the keys are shown */
} vqp_top_t;

#define VQP_TOP_HEAD      4    /* lines of the table that stay: summary, names of columns */
#define VQP_TOP_DELAY_MIN 0.01 /* seconds */
#define VQP_TOP_DELAY_MAX 86400

static const char vqp_top_help[] =
"vqp-top - live counters of the UCX transport vqp, per connection and path\n"
"\n"
"Usage: vqp-top [OPTION]... [DIRECTORY|FILE]...\n"
"\n"
"Shows the processes of this user (as root: of all users) that run with\n"
"UCX_VQP_TELEMETRY=on, and what is left of those that were killed. Without\n"
"arguments it looks in $XDG_RUNTIME_DIR, in /dev/shm and in /run/user/UID; as root\n"
"in the directories of all users below /run/user.\n"
"\n"
"  -1, --once             print the table once\n"
"  -j, --json             print everything as one JSON object\n"
"  -p, --prometheus FILE  write metrics of running processes in the text format\n"
"                         of Prometheus, for example for the textfile collector of\n"
"                         node_exporter. FILE is replaced at once, never seen half\n"
"                         written; \"-\" is standard output\n"
"  -d, --delay SECONDS    time between refreshes [1]; with --json or --prometheus:\n"
"                         repeat\n"
"  -n, --count N          end after N refreshes\n"
"  -s, --sort KEY         rate [default], bytes, downs or pid\n"
"  -c, --clean            remove files of this user whose process has ended\n"
"  -v, --verbose          say which files are ignored, and why\n"
"  -h, --help             this text\n"
"  -V, --version          the version\n"
"\n"
"Columns of a connection: AGE of the snapshot (\"ended\": the process has; a large\n"
"age: it does not call progress; \"~\": the snapshot is torn), CONN its number, PEER\n"
"the peer's interface id, RATE bytes posted per second, OPS operations, STALLS\n"
"refusals for lack of credit of the peer, REFUSE all refusals, REORDR how far a\n"
"fragment ran ahead of its order, AHEAD fragments that wait for a missing one now,\n"
"GAP the longest time one was missing, OUTAG time without a path now, DOWNS paths\n"
"given up, REPLAY fragments sent again.\n"
"Columns of a path: STATE, PORT, SPORT the UDP source port that the flow LABEL gives,\n"
"QPN and PEER QPN the queue pairs, RATE (\"!\": less than half of its share for 10 s),\n"
"BYTES and FRAGS posted, FLIGHT and BYTES in flight, DOWNS, REPLAYS, P50 and P99 the\n"
"latency that 50 and 99 % of the samples do not exceed.\n"
"\n"
"Keys, on a terminal: q quit; r, b, d, p sort by rate, bytes, downs, pid; arrows and\n"
"pages move in the table; + and - halve and double the delay; space refresh now; h or ?\n"
"show the keys.\n"
"\n"
"Exit status: 0; 1 if a named place can not be read or FILE can not be written; 2 for\n"
"a wrong option.\n";

/* Read the files anew. @return 0: a named place can not be read */
static int vqp_top_read(vqp_top_t *top)
{
    struct stat info;
    char **place;
    int good = 1;
    int error;

    teleset_clear(&top->set);
    if (*top->places == NULL) {
        teleset_add_default(&top->set);
    }

    for (place = top->places; *place != NULL; ++place) {
        error = 0;
        if (stat(*place, &info) != 0) {
            error = errno;
        } else if (S_ISDIR(info.st_mode)) {
            error = teleset_add_dir(&top->set, *place);
        } else {
            top->set.is_verbose += 2; /* a named file is not left out silently */
            good &= teleset_add_file(&top->set, *place);
            top->set.is_verbose -= 2;
        }

        if (error != 0) {
            fprintf(stderr, "vqp-top: %s: %s\n", *place, strerror(error));
            good = 0;
        }
    }

    teleset_sort(&top->set);
    return good;
}

/* node_exporter may read at any time: write another file, and rename it */
static int vqp_top_write_metrics(const vqp_top_t *top)
{
    char name[PATH_MAX];
    FILE *file;
    int good;

    if (strcmp(top->prometheus, "-") == 0) {
        teleout_prometheus(stdout, &top->set);
        return fflush(stdout) == 0;
    }

    if (snprintf(name, sizeof(name), "%s.%d.tmp", top->prometheus, (int)getpid()) >=
        (int)sizeof(name)) {
        fprintf(stderr, "vqp-top: %s: %s\n", top->prometheus, strerror(ENAMETOOLONG));
        return 0;
    }

    file = fopen(name, "wxe");
    if (file == NULL) {
        fprintf(stderr, "vqp-top: %s: %s\n", name, strerror(errno));
        return 0;
    }

    teleout_prometheus(file, &top->set);
    good = !ferror(file);
    good = (fclose(file) == 0) && good && (rename(name, top->prometheus) == 0);
    if (!good) {
        fprintf(stderr, "vqp-top: %s: %s\n", top->prometheus, strerror(errno));
        (void)unlink(name);
    }

    return good;
}

static struct winsize vqp_top_window(void)
{
    struct winsize size = {.ws_row = 0};

    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    if ((size.ws_row == 0) || (size.ws_col == 0)) {
        size.ws_row = 24; /* a serial line, for example, does not report its size */
        size.ws_col = 80;
    }

    return size;
}

static size_t vqp_top_num_lines(const char *text)
{
    size_t num = 0;

    for (; *text != '\0'; ++text) {
        num += (*text == '\n') ? 1 : 0;
    }

    return num;
}

/* As many lines and columns as the terminal has: the head, and the rest from
 * top->skipped on, which may not leave the last line behind */
static void vqp_top_clip(vqp_top_t *top, const char *text)
{
    static const char keys[] = "q quit  r b d p sort  arrows, pages move  + - delay  "
                               "space refresh";
    struct winsize size      = vqp_top_window();
    size_t lines             = vqp_top_num_lines(text);
    unsigned row             = 1;
    size_t index, length;
    const char *line;

    top->skipped = vqp_min(top->skipped, vqp_max(lines, VQP_TOP_HEAD + 1ul) -
                                         (VQP_TOP_HEAD + 1));
    printf("\033[H\033[2J");
    for (index = 0; index < lines; ++index, text += length + 1) {
        length = strcspn(text, "\n");
        if ((index >= VQP_TOP_HEAD) && (index < VQP_TOP_HEAD + top->skipped)) {
            continue;
        } else if (row >= size.ws_row) {
            printf("...");
            break;
        }

        line = ((index == 1) && top->is_help && (lines > VQP_TOP_HEAD)) ? keys : text;
        printf("%.*s\n", (int)vqp_min(strcspn(line, "\n"), (size_t)size.ws_col), line);
        ++row;
    }
}

static void vqp_top_print_table(vqp_top_t *top, int is_live)
{
    char *text = NULL;
    size_t size;
    FILE *file;

    if (!is_live || !isatty(STDOUT_FILENO)) {
        teleout_table(stdout, &top->set, top->sort);
        return;
    }

    file = open_memstream(&text, &size);
    if (file != NULL) {
        teleout_table(file, &top->set, top->sort);
        if (fclose(file) == 0) {
            vqp_top_clip(top, text);
        }
        free(text);
    }
}

/* @return 0: quit */
static int vqp_top_handle_key(vqp_top_t *top, int key)
{
    static const char sorts[] = {
        [TELEOUT_SORT_RATE]  = 'r', [TELEOUT_SORT_BYTES] = 'b',
        [TELEOUT_SORT_DOWNS] = 'd', [TELEOUT_SORT_PID]   = 'p'
    };
    size_t page = vqp_max(vqp_top_window().ws_row, VQP_TOP_HEAD + 2u) -
                  (VQP_TOP_HEAD + 1u);
    unsigned i;

    for (i = 0; i < sizeof(sorts); ++i) {
        if (key == sorts[i]) {
            top->sort = (teleout_sort_t)i;
        }
    }

    switch (key) {
    case 'q':
        return 0;
    case 'h':
    case '?':
        top->is_help = !top->is_help;
        break;
    case '+':
        top->delay = vqp_max(top->delay / 2, VQP_TOP_DELAY_MIN);
        break;
    case '-':
        top->delay = vqp_min(top->delay * 2, (double)VQP_TOP_DELAY_MAX);
        break;
    case TOPKEYS_UP:
        top->skipped -= vqp_min(top->skipped, 1ul);
        break;
    case TOPKEYS_DOWN:
        ++top->skipped;
        break;
    case TOPKEYS_PAGE_UP:
        top->skipped -= vqp_min(top->skipped, page);
        break;
    case TOPKEYS_PAGE_DOWN:
        top->skipped += page;
        break;
    default:
        break;
    }

    return 1;
}

static int vqp_top_run(vqp_top_t *top)
{
    unsigned long done = 0;
    int good;

    if (!top->is_clean && !top->is_json && (top->prometheus == NULL) && (top->count != 1)) {
        topkeys_open();
    }

    for (;;) {
        good = vqp_top_read(top);
        if (top->is_clean) {
            printf("%u files removed\n", teleset_clean(&top->set));
        } else if (top->prometheus != NULL) {
            good = vqp_top_write_metrics(top) && good;
        } else if (top->is_json) {
            teleout_json(stdout, &top->set);
        } else {
            vqp_top_print_table(top, top->count != 1);
        }

        if (fflush(stdout) != 0) {
            fprintf(stderr, "vqp-top: standard output: %s\n", strerror(errno));
            return 1;
        }

        if ((++done == top->count) ||
            !vqp_top_handle_key(top, topkeys_wait(top->delay))) {
            return good ? 0 : 1;
        }
    }
}

static int vqp_top_parse_sort(const char *key, teleout_sort_t *sort)
{
    static const char *const keys[] = {
        [TELEOUT_SORT_RATE]  = "rate",
        [TELEOUT_SORT_BYTES] = "bytes",
        [TELEOUT_SORT_DOWNS] = "downs",
        [TELEOUT_SORT_PID]   = "pid"
    };
    unsigned i;

    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); ++i) {
        if (strcmp(key, keys[i]) == 0) {
            *sort = (teleout_sort_t)i;
            return 1;
        }
    }

    return 0;
}

/* @return 0, or what is wrong. *is_done: there is nothing to do but that */
static const char *vqp_top_parse_option(vqp_top_t *top, int option, int *is_delayed)
{
    char *end;

    switch (option) {
    case '1':
        top->count = 1;
        return NULL;
    case 'j':
        top->is_json = 1;
        return NULL;
    case 'p':
        top->prometheus = optarg;
        return NULL;
    case 'd':
        top->delay  = strtod(optarg, &end);
        *is_delayed = 1;
        return ((*end == '\0') && (top->delay >= VQP_TOP_DELAY_MIN) &&
                (top->delay <= VQP_TOP_DELAY_MAX)) ?
                       NULL : "--delay has to be 0.01 to 86400 seconds";
    case 'n':
        top->count = strtoul(optarg, &end, 10);
        return ((*end == '\0') && (top->count > 0)) ? NULL : "--count has to be above 0";
    case 's':
        return vqp_top_parse_sort(optarg, &top->sort) ? NULL :
               "--sort has to be rate, bytes, downs or pid";
    case 'c':
        top->is_clean = 1;
        return NULL;
    case 'v':
        top->set.is_verbose = 1;
        return NULL;
    default:
        return "see vqp-top --help";
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"once", no_argument, NULL, '1'},       {"json", no_argument, NULL, 'j'},
        {"prometheus", required_argument, NULL, 'p'},
        {"delay", required_argument, NULL, 'd'}, {"count", required_argument, NULL, 'n'},
        {"sort", required_argument, NULL, 's'}, {"clean", no_argument, NULL, 'c'},
        {"verbose", no_argument, NULL, 'v'},    {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},    {NULL, 0, NULL, 0}
    };
    vqp_top_t top   = {.delay = 1};
    int is_delayed  = 0;
    const char *why;
    int option, status;

    while ((option = getopt_long(argc, argv, "1jp:d:n:s:cvhV", options, NULL)) != -1) {
        if (option == 'h') {
            return (fputs(vqp_top_help, stdout) < 0) ? 1 : 0;
        } else if (option == 'V') {
            return (puts("vqp-top " VQP_VERSION) < 0) ? 1 : 0;
        }

        why = vqp_top_parse_option(&top, option, &is_delayed);
        if (why != NULL) {
            fprintf(stderr, "vqp-top: %s\n", why);
            return 2;
        }
    }

    if (top.is_clean ||
        ((top.is_json || (top.prometheus != NULL)) && !is_delayed && (top.count == 0))) {
        top.count = 1;
    }

    top.places = argv + optind;
    status     = vqp_top_run(&top);
    teleset_clear(&top.set);
    return status;
}
