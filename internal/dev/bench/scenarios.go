package bench

import "fmt"

// fewQueued is how many Maps of another tenant wait where few do.
const fewQueued = 100

// greeting is answered by one call of a model without delay.
const greeting = `{"message":"Hello"}`

// groups are the table: a request, how many clients make it, what it is divided by, and its goals.
func (b *benchmark) groups() []group {
	floor := func(clients int) side { return side{"bare workflow", clients, b.onFloor} }
	run := func(clients int) side { return side{"run", clients, b.run} }
	bare := side{"bare GET", 16, b.bareGet}
	agent := func(what string, clients int, path *string, text string, headers map[string]string, words ...string) side {
		return side{what, clients, say(&b.writer, path, text, headers, words...)}
	}
	pursue := func(clients int) side {
		return agent("goal of one step", clients, &b.goal, `{"goal":"Get the order ord_1001","limits":{"goal_steps":2}}`, nil, `"criteria_met"`)
	}
	stream := map[string]string{"Accept": "text/event-stream"}
	beside := func(n int) side { return side{fmt.Sprintf("Map beside %d of another tenant", n), 1, b.mapOfFive} }
	return []group{
		{b.prepare, []scenario{
			{side: run(1), by: floor(1), goals: []goal{{p50, 0, 2.6}}},
			// The periodic work of a process and the notices of many runs are a part of one trip more.
			{side: run(16), by: floor(16), goals: []goal{{rate, 0.45, 0}, {trips, 0, 4.5}}},
			{side: run(64), by: floor(64), goals: []goal{{rate, 0.45, 0}}},
			{side: run(64), by: run(16), goals: []goal{{rate, 0.8, 0}}},
			{side: side{"Map of five steps", 16, b.mapOfFive}, by: run(16), goals: []goal{{rate, 0.6, 0}, {trips, 0, 14}, {writes, 0, 4}}},
			{side: agent("message to an agent", 1, &b.agent, greeting, nil), by: run(1), goals: []goal{{p50, 0, 2.5}}},
			{
				side: agent("the same, streamed", 1, &b.agent, greeting, stream, "event: message.delta", "event: message.completed"),
				by:   run(1), goals: []goal{{p50, 0, 2.5}},
			},
			{side: pursue(1), by: run(1), goals: []goal{{p50, 0, 6}}},
			{side: pursue(16), by: run(16), goals: []goal{{trips, 0, 28}}},
			{side: agent("message by a Map of one step", 16, &b.guided, greeting, nil, `"map_completed"`), by: run(16), goals: []goal{{trips, 0, 66}}},
			{side: side{"fence hit", 16, b.fenceHit}, by: bare, goals: []goal{{rate, 0.65, 0}}},
			{side: side{"evaluate", 16, b.evaluate}, by: bare, goals: []goal{{rate, 0.6, 0}}},
			{side: side{"held call and its approval", 16, b.decide}, by: run(16), setUp: b.holdSome, goals: []goal{{p50, 0, 4}, {trips, 0, 16.5}}},
			{side: side{fmt.Sprintf("run beside %d held calls", b.Pending), 16, b.run}, by: run(16), setUp: b.holdSome, change: b.fillPending, goals: []goal{{rate, 0.9, 0}}},
		}},
		{b.gather, []scenario{
			{side: beside(fewQueued), by: beside(0), change: b.queue(fewQueued), long: 3, goals: []goal{{p99, 0, 2.5}}},
			{side: beside(b.Queued), by: beside(fewQueued), setUp: b.queue(fewQueued), change: b.queue(b.Queued), long: 3, goals: []goal{{p99, 0, 1.2}}},
		}},
	}
}
