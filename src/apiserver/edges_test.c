/* The edge cases of the device API, row by row: A1 to A30 of the specification's table.
 *
 * A request is "METHOD path body", with ' for the quotes of JSON; %RV is the version of the object
 * last answered. A row passes when every step gives the status, and its body holds the texts.
 */
#include "apiserver/test_server.h"

#include "base/arena.h"
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V1       "/apis/resource.k8s.io/v1"
#define NS       "/namespaces/default"
#define CLAIMS   V1 NS "/resourceclaims"
#define SLICES   V1 "/resourceslices"
#define B1CLAIMS "/apis/resource.k8s.io/v1beta1" NS "/resourceclaims"
#define RULES    "/apis/resource.k8s.io/v1beta2/devicetaintrules"

#define CLAIM(name, spec)                                                                          \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'" name          \
    "','namespace':'default'},'spec':{'devices':{" spec "}}}"
#define REQ(more) "'requests':[{'name':'r','exactly':{'deviceClassName':'c'" more "}}]"
#define POOL      "'driver':'d.io','pool':{'name':'p','generation':1,'resourceSliceCount':1}"
#define SLICE(name, spec)                                                                          \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':'" name          \
    "'},'spec':{" POOL "," spec "}}"
#define DEVICE(more) "'nodeName':'n','devices':[{'name':'d'" more "}]"
#define TERM(key)    "{'matchExpressions':[{'key':'" key "','operator':'Exists'}]}"
#define CAPACITY(policy)                                                                           \
    DEVICE(                                                                                        \
        ",'allowMultipleAllocations':true,'capacity':{'m':{'value':'10','requestPolicy':{" policy  \
        "}}}")

#define STATUS(name, rest)                                                                         \
    "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaim','metadata':{'name':'" name          \
    "','namespace':'default'},'status':{" rest "}}"
#define ALLOC(device)                                                                              \
    "'allocation':{'devices':{'results':[{'request':'r','driver':'d.io','pool':'p','device':"      \
    "'" device "'}]}}"
#define DEVSTATUS(more) "'devices':[{'driver':'d.io','pool':'p','device':'a'" more "}]"
#define RULE(effect, more)                                                                         \
    "{'apiVersion':'resource.k8s.io/v1beta2','kind':'DeviceTaintRule','metadata':{'name':'r'" more \
    "},'spec':{'deviceSelector':{'pool':'p'},'taint':{'key':'k','effect':'" effect "'"

struct step {
    const char *method, *path, *body;
    int status;
    const char *has[3]; /* a text that begins with ! must not be there */
};

struct row {
    const char *name;
    struct step steps[6];
};

static const struct row rows[] = {
    {"A1",
     {{"POST",
       B1CLAIMS,
       "{'apiVersion':'resource.k8s.io/v1beta1','kind':'ResourceClaim','metadata':{'name':'a1',"
       "'namespace':'default'},'spec':{'devices':{'requests':[{'name':'r','deviceClassName':'c',"
       "'firstAvailable':[{'name':'s','deviceClassName':'c'}]}]}}}",
       422,
       {"'spec.devices.requests[0]'"}}}},
    {"A2",
     {{"POST",
       B1CLAIMS,
       "{'apiVersion':'resource.k8s.io/v1beta1','kind':'ResourceClaim','metadata':{'name':'a2',"
       "'namespace':'default'},'spec':{'devices':{'requests':[{'name':'r',"
       "'firstAvailable':[{'name':'s','deviceClassName':'c'}]}]}}}",
       201,
       {"{'name':'r','deviceClassName':'','firstAvailable':[{'name':'s','deviceClassName':'c',"
        "'allocationMode':"
        "'ExactCount','count':1}]}"}}}},
    {"A3",
     {{"POST",
       "/apis/resource.k8s.io/v1beta1/resourceslices",
       "{'apiVersion':'resource.k8s.io/v1beta1','kind':'ResourceSlice','metadata':{'name':'a3'},"
       "'spec':{" POOL
       ",'nodeName':'','allNodes':false,'nodeSelector':{'nodeSelectorTerms':[" TERM("z") "]}}}",
       201,
       {0}},
      {"GET", SLICES "/a3", NULL, 200, {"nodeSelectorTerms", "!nodeName", "!allNodes"}}}},
    {"A4",
     {{"POST", SLICES, SLICE("a4", "'nodeName':''"), 422, {"'spec.nodeName'", "'field':'spec'"}}}},
    {"A5",
     {{"POST",
       SLICES,
       SLICE("a5", "'nodeName':'n','devices':[],'sharedCounters':[{'name':'s','counters':{'c':{"
                   "'value':'1'}}}]"),
       422,
       {"'field':'spec'", "sharedCounters"}}}},
    {"A8",
     {{"POST",
       SLICES,
       SLICE("a8", DEVICE(",'attributes':{'a':{'int':1,'string':'x'},'b':{}}")),
       422,
       {"'spec.devices[0].attributes[a]'", "'spec.devices[0].attributes[b]'",
        "exactly one value must be specified"}}}},
    {"A9",
     {{"POST",
       SLICES,
       SLICE("a9", DEVICE(",'attributes':{'a':{'version':'1.0'}}")),
       422,
       {"attributes[a].version"}},
      {"POST",
       SLICES,
       SLICE("a9", DEVICE(",'attributes':{'a':{'version':'v1.0.0'}}")),
       422,
       {"attributes[a].version"}},
      {"POST",
       SLICES,
       SLICE("a9", DEVICE(",'attributes':{'a':{'version':'01.0.0'}}")),
       422,
       {"attributes[a].version"}},
      {"POST", SLICES, SLICE("a9", DEVICE(",'attributes':{'a':{'version':'1.0.0'}}")), 201, {0}}}},
    {"A10",
     {{"POST",
       CLAIMS,
       CLAIM("a10", REQ() ",'constraints':[{'matchAttribute':'a/b/c'}]"),
       201,
       {0}}}},
    {"A11",
     {{"POST",
       CLAIMS,
       CLAIM("a11", REQ() ",'constraints':[{'matchAttribute':'a.io/b','distinctAttribute':"
                          "'a.io/c'}]"),
       201,
       {0}}}},
    {"A12", {{"POST", CLAIMS, CLAIM("a12", REQ(",'count':0")), 201, {"'count':1"}}}},
    {"A13",
     {{"POST",
       CLAIMS,
       CLAIM("a13", REQ(",'allocationMode':'All','count':1")),
       422,
       {"'spec.devices.requests[0].exactly.count'"}}}},
    {"A14",
     {{"POST", CLAIMS, CLAIM("a14", REQ()), 201, {0}},
      {"PUT",
       CLAIMS "/a14/status",
       STATUS("a14", "'reservedFor':[{'resource':'pods','name':'p','uid':'u'}]"),
       422,
       {"FieldValueForbidden", "'status.reservedFor'"}}}},
    {"A15",
     {{"POST", CLAIMS, CLAIM("a15", REQ()), 201, {0}},
      {"PUT", CLAIMS "/a15/status", STATUS("a15", ALLOC("a")), 200, {0}},
      {"PUT",
       CLAIMS "/a15/status",
       STATUS("a15", ALLOC("b")),
       422,
       {"'status.allocation'", "field is immutable"}}}},
    {"A16",
     {{"POST", CLAIMS, CLAIM("a16", REQ()), 201, {0}},
      {"PUT",
       CLAIMS "/a16/status",
       STATUS("a16", ALLOC("a") "," DEVSTATUS("")),
       200,
       {"'conditions':null"}},
      {"PUT", CLAIMS "/a16/status", STATUS("a16", DEVSTATUS("")), 200, {"'status':{}"}}}},
    {"A17",
     {{"POST", CLAIMS, CLAIM("a17", REQ()), 201, {0}},
      {"PUT",
       CLAIMS "/a17/status",
       STATUS("a17", ALLOC("a") "," DEVSTATUS(",'shareID':'00000000-0000-4000-8000-000000000001'")),
       422,
       {"'status.devices[0]'"}}}},
    {"A18",
     {{"POST", CLAIMS, CLAIM("a18", REQ()), 201, {0}},
      {"PUT",
       CLAIMS "/a18/status",
       STATUS("a18", ALLOC("a") "," DEVSTATUS(",'networkData':{'ips':['192.0.2.5']}")),
       422,
       {"'status.devices[0].networkData.ips[0]'"}},
      {"PUT",
       CLAIMS "/a18/status",
       STATUS("a18", ALLOC("a") "," DEVSTATUS(",'networkData':{'ips':['192.0.02.5/24']}")),
       422,
       {"'status.devices[0].networkData.ips[0]'"}},
      {"PUT",
       CLAIMS "/a18/status",
       STATUS("a18", ALLOC("a") "," DEVSTATUS(",'networkData':{'ips':['192.0.2.5/24']}")),
       200,
       {0}}}},
    {"A19",
     {{"POST",
       CLAIMS,
       CLAIM("a19", REQ(",'adminAccess':true")),
       422,
       {"FieldValueForbidden", "'spec.devices.requests[0].adminAccess'"}},
      {"PATCH",
       "/api/v1/namespaces/default",
       "{'metadata':{'labels':{'resource.kubernetes.io/admin-access':'True'}}}",
       200,
       {0}},
      {"POST", CLAIMS, CLAIM("a19", REQ(",'adminAccess':true")), 422, {"FieldValueForbidden"}},
      {"PATCH",
       "/api/v1/namespaces/default",
       "{'metadata':{'labels':{'resource.kubernetes.io/admin-access':'true'}}}",
       200,
       {0}},
      {"POST", CLAIMS, CLAIM("a19", REQ(",'adminAccess':true")), 201, {0}}}},
    {"A20",
     {{"POST",
       V1 "/deviceclasses",
       "{'apiVersion':'resource.k8s.io/v1','kind':'DeviceClass','metadata':{'name':'a20'},'spec':{"
       "'extendedResourceName':'deviceclass.resource.kubernetes.io/x'}}",
       422,
       {"'spec.extendedResourceName'"}}}},
    {"A21", /* of a gate that is off: what devices stand for on their node */
     {{"POST", SLICES, SLICE("a21", DEVICE("")), 201, {"'generation':1,"}},
      {"PUT",
       SLICES "/a21",
       SLICE("a21", DEVICE(",'nodeAllocatableResourceMappings':{'cpu':{'allocationMultiplier':'2'}"
                           "}")),
       200,
       {"'generation':2,", "!nodeAllocatableResourceMappings"}}}},
    {"A22",
     {{"POST",
       RULES,
       RULE("None", "") ",'timeAdded':'2020-01-01T00:00:00Z'}}}",
       201,
       {"2020-01-01T00:00:00Z"}},
      {"PUT",
       RULES "/r",
       RULE("NoExecute", "") ",'timeAdded':'2020-01-01T00:00:00Z'}}}",
       200,
       {"NoExecute", "!'timeAdded':'2020-01-01T00:00:00Z'"}}}},
    {"A23",
     {{"POST",
       SLICES,
       SLICE("a23", CAPACITY("'default':'1','validRange':{'min':'1','step':'0'}")),
       422,
       {"requestPolicy.validRange.step'"}}}},
    {"A24",
     {{"POST",
       SLICES,
       SLICE("a24", CAPACITY("'default':'100m','validValues':['100m','200m']")),
       422,
       {"FieldValueDuplicate", "requestPolicy.validValues[1]'"}}}},
    {"A27",
     {{"POST",
       CLAIMS,
       CLAIM("a27", REQ(",'tolerations':[{'key':'','operator':'Equal','value':''}]")),
       201,
       {0}}}},
    {"A28",
     {{"POST",
       SLICES,
       SLICE("a28", "'perDeviceNodeSelection':true,'devices':[{'name':'d','nodeSelector':{"
                    "'nodeSelectorTerms':[" TERM("a") "," TERM("b") "]}}]"),
       201,
       {0}}}},
    {"A29",
     {{"POST",
       SLICES,
       SLICE("a29", DEVICE(",'consumesCounters':[{'counterSet':'s','counters':{'c':{'value':'-1'}}"
                           "}]")),
       201,
       {0}}}},
    {"A30",
     {{"POST",
       V1 NS "/resourceclaimtemplates",
       "{'apiVersion':'resource.k8s.io/v1','kind':'ResourceClaimTemplate','metadata':{'name':'a30',"
       "'namespace':'default'},'spec':{'metadata':{'name':'x'},'spec':{'devices':{" REQ() "}}}}",
       422,
       {"'spec.metadata"}}}},
};

/* ' becomes the quote of JSON. */
static char *quoted(const char *text)
{
    char *q = bh_strdup_c(bh_s(text));

    for (char *p = q; *p; p++)
        if (*p == '\'')
            *p = '"';
    return q;
}

static void check_text(const struct ts *t, const char *row, const char *text)
{
    bool absent = text[0] == '!';
    char *q = quoted(text + (absent ? 1 : 0));

    if (ts_has(t, q) == absent)
        bh_test_fail(__FILE__, __LINE__, "%s: the answer %s %s: %.*s", row,
                     absent ? "has" : "lacks", q, (int)t->body.n, t->body.p);
    bh_free(q);
}

static void play(struct ts *t, const struct row *r)
{
    for (size_t i = 0; i < BH_COUNT(r->steps) && r->steps[i].method; i++) {
        const struct step *s = &r->steps[i];
        char *body = s->body ? quoted(s->body) : NULL;
        int got =
            strcmp(s->method, "PATCH") == 0
                ? ts_call_with(t, "PATCH", s->path, NULL, "application/merge-patch+json", body)
                : ts_call(t, s->method, s->path, body);

        if (got != s->status)
            bh_test_fail(__FILE__, __LINE__, "%s, step %zu: status %d, want %d: %.*s", r->name, i,
                         got, s->status, (int)t->body.n, t->body.p);
        for (size_t k = 0; k < BH_COUNT(s->has) && s->has[k]; k++)
            check_text(t, r->name, s->has[k]);
        bh_free(body);
    }
}

BH_TEST(edges_api)
{
    struct ts t;

    ts_start(&t, 1);
    for (size_t i = 0; i < BH_COUNT(rows); i++)
        play(&t, &rows[i]);
    ts_stop(&t);
}

/* A slice of n devices; taint: of the last one. */
static int post_slice(struct ts *t, int n, bool taint, bool broken)
{
    BH_AUTO_BUF b = {.max = 1 << 20};

    bh_buf_addz(&b,
                "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\",\"metadata\":{"
                "\"name\":\"many\"},\"spec\":{\"driver\":\"d.io\",\"pool\":{\"name\":\"p\","
                "\"generation\":1,\"resourceSliceCount\":1},\"nodeName\":\"n\",\"devices\":[");
    for (int i = 0; i < n; i++)
        bh_buf_addf(&b, "%s{\"name\":\"%s%d\"%s}", i ? "," : "", broken ? "D_" : "d", i,
                    taint && i + 1 == n ? ",\"taints\":[{\"key\":\"k\",\"effect\":\"NoSchedule\"}]"
                                        : "");
    bh_buf_addz(&b, "]}}");
    return ts_call(t, "POST", SLICES, bh_buf_cstr(&b));
}

BH_TEST(edges_api_many_devices) /* A6, A7 */
{
    struct ts t;

    ts_start(&t, 1);
    BH_EQ(post_slice(&t, 65, true, false), 422);
    check_text(&t, "A6", "'field':'spec.devices'");
    BH_EQ(post_slice(&t, 129, false, true), 422);
    check_text(&t, "A7", "'causes':[{'reason':'FieldValueTooMany'");
    check_text(&t, "A7", "!spec.devices[");
    BH_EQ(post_slice(&t, 65, false, false), 201);
    ts_stop(&t);
}
