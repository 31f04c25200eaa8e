/* What a libuct of the same version and another commit may differ in. Preloaded, it stands
 * before libuct:
 * MOVED:    a table of options with the member of one of them so many bytes from its place
 * FUNCTION: functions of later versions, and of one version alone: each libuct lacks one
 * FIND:     nothing, and says which options of VQP_FIND, TABLE:OPTION with blanks between
 *           them, are in their tables */
#define _GNU_SOURCE
#include <config.h>
#include <uct/base/uct_iface.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MOVED
ucs_config_field_t uct_iface_config_table[] = {
    {"MAX_NUM_EPS", "inf", "", offsetof(uct_iface_config_t, max_num_eps) + MOVED,
     UCS_CONFIG_TYPE_ULUNITS},
    {NULL}
};
#endif

#ifdef FUNCTION
int uct_md_mem_elem_release()
{
    return 0;
}

int uct_iface_mem_element_pack()
{
    return 0;
}
#endif

#ifdef FIND
static int find(const char *table, const char *option)
{
    const ucs_config_field_t *field = dlsym(RTLD_DEFAULT, table);

    while ((field != NULL) && (field->name != NULL) && strcmp(field->name, option)) {
        ++field;
    }

    return (field != NULL) && (field->name != NULL);
}

__attribute__((constructor)) static void find_all(void)
{
    char *names = strdup(getenv("VQP_FIND"));
    char *table, *option;

    for (table = strtok(names, ": "); table != NULL; table = strtok(NULL, ": ")) {
        option = strtok(NULL, ": ");
        fprintf(stderr, "%soption %s of %s\n", find(table, option) ? "" : "no ", option,
                table);
    }

    free(names);
}
#endif
