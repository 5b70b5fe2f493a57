package app

import (
	"agentruntime/internal/action/desk"
	"agentruntime/internal/record/approval"
)

// subjects returns the domain of every type of subject that people decide about.
func (a *App) subjects() map[approval.SubjectType]desk.Subjects {
	return map[approval.SubjectType]desk.Subjects{
		approval.SubjectRun: a.runs, approval.SubjectMapStep: a.executions, approval.SubjectMapChanges: a.executions.ChangeSets(),
	}
}

// ownSubjects names the domains that repair approvals of Maps.
func (a *App) ownSubjects() {
	a.approvals.Own(approval.SubjectMapStep, a.executions)
	a.approvals.Own(approval.SubjectMapChanges, a.executions.ChangeSets())
}
