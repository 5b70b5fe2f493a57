package stepmachine

import "agentruntime/internal/maps/mapdef"

// startMap starts another Map. Its time is only bounded where the step has a timeout: it may
// wait for people.
func (m *machine) startMap(t *Task, do *mapdef.DoMap) {
	m.do(StartMap{
		Ref: t.ref(), MapID: do.MapID, Version: do.Version, Payload: t.Input.orEmpty(), Wait: do.Wait, DryRun: m.s.DryRun,
	})
}
