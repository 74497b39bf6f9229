/* Figures, and the port that tells them. */
#include "scheduler/sched_int.h"
#include "scheduler/world_test.h"

static bool has(struct bh_str text, const char *line)
{
    return bh_str_find(text, bh_s(line)) >= 0;
}

BH_TEST(attempts_are_counted_by_what_came_of_them)
{
    BH_AUTO_BUF b = {.max = 1u << 20};
    struct bh_str text;
    struct world w;

    world_init(&w);
    world_node(&w, "oak", "2", "");
    world_start(&w);
    world_pod(&w, "fits", "1", "");
    world_pod(&w, "big", "3", "");
    world_pod(&w, "gated", "1", "\"schedulingGates\":[{\"name\":\"example.com/g\"}]");
    world_run(&w, 1000);
    sched_metrics(w.sched, &b);
    text = bh_buf_str(&b);
    BH_CHECK(has(text, "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result="
                       "\"scheduled\"} 1\n"));
    BH_CHECK(has(text, "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result="
                       "\"unschedulable\"} 1\n"));
    BH_CHECK(has(text, "scheduler_pending_pods{queue=\"unschedulable\"} 1\n"));
    BH_CHECK(has(text, "scheduler_pending_pods{queue=\"gated\"} 1\n"));
    BH_CHECK(has(text, "scheduler_pending_pods{queue=\"active\"} 0\n"));
    BH_CHECK(has(text, "scheduler_pod_scheduling_sli_duration_seconds_count{profile=\"default-"
                       "scheduler\"} 1\n"));
    BH_CHECK(has(text, "scheduler_scheduling_attempt_duration_seconds_bucket{profile=\"default-"
                       "scheduler\",result=\"scheduled\",le=\"+Inf\"} 1\n"));
    BH_CHECK(has(text, "scheduler_preemption_attempts_total 1\n"));
    BH_CHECK(has(text, "scheduler_cache_size{type=\"nodes\"} 1\n"));
    world_done(&w);
}

BH_TEST(histograms_have_an_open_end)
{
    struct sched_histogram h = {0};

    sched_histogram_add(&h, 0, 1);
    sched_histogram_add(&h, 1, 1);
    sched_histogram_add(&h, 1.5, 1);
    sched_histogram_add(&h, 1e9, 1);
    BH_EQ(h.count[0], 2);
    BH_EQ(h.count[1], 1);
    BH_EQ(h.count[HISTOGRAM_BUCKETS], 1);
}
