/* What a libuct of the same version and another commit may differ in. Preloaded, it stands
 * before libuct:
 * MOVED:    a table of options with the member of one of them so many bytes from its place
 * FUNCTION: functions of later versions, and of one version alone: each libuct lacks one */
#include <config.h>
#include <uct/base/uct_iface.h>

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
