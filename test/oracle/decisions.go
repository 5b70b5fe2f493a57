package oracle

import (
	"encoding/json"
	"slices"
	"strings"
)

// Counted returns how often a decision of a user is counted for an approval.
func Counted(f Facts, approvalID, userID, decision string) (n int) {
	for _, d := range f.Decisions {
		if d.ApprovalID == approvalID && d.CountedAt != nil && d.Decision == decision && d.UserID != nil && d.UserID.String() == userID {
			n++
		}
	}
	return n
}

// DecidedOnce judges the promise that each decision counts once, that an approval ends as
// its decisions say, and that each counted decision has an audit record.
func DecidedOnce(f Facts) []string {
	var found findings
	for _, a := range f.Approvals {
		f.decidedOnce(a, &found)
	}
	return found
}

func (f Facts) decidedOnce(a Approval, found *findings) {
	byUser, said := map[string]int{}, map[string]int{}
	for _, d := range f.Decisions {
		if d.ApprovalID != a.ID || d.CountedAt == nil {
			continue
		}
		said[d.Decision]++
		if d.UserID != nil {
			byUser[d.UserID.String()+" "+d.Decision]++
		}
	}
	for decision, n := range byUser {
		if n > 1 {
			found.report("%s: %s counted %d times", a.ID, decision, n)
		}
	}
	if said["reject"] > 1 || said["reject"] == 1 != (a.Status == "rejected") {
		found.report("%s: %s with %d rejections", a.ID, a.Status, said["reject"])
	}
	if a.Status == "approved" && said["approve"] == 0 {
		found.report("%s: approved by nobody", a.ID)
	}
	recorded := len(f.records(func(r Record) bool {
		return r.SubjectID == a.ID && slices.Contains([]string{"approval.voted", "approval.approved", "approval.rejected", "approval.edited"}, r.Action)
	}))
	if recorded != said["approve"]+said["reject"] {
		found.report("%s: %d decisions counted, %d recorded", a.ID, said["approve"]+said["reject"], recorded)
	}
}

// RejectionsFinal judges the promise that a rejection or an expiry is the end of its run:
// the run stays so, and people are not asked about it again. A dry run stays intercepted.
func RejectionsFinal(f Facts) []string {
	var found findings
	for _, a := range f.Approvals {
		if a.Status != "rejected" && a.Status != "expired" {
			continue
		}
		for _, r := range f.Runs {
			if r.ID == a.RunID && r.State != a.Status && (!r.DryRun || r.State != "intercepted") {
				found.report("%s: %s is %s, and the run is %s", r.ExecutionID, a.ID, a.Status, r.State)
			}
		}
		for _, later := range f.Approvals {
			if later.RunID == a.RunID && later.ID > a.ID {
				found.report("%s: asked although %s is %s", later.ID, a.ID, a.Status)
			}
		}
	}
	return found
}

// ApprovalsRecorded judges the promise that the audit trail names the beginning, the
// escalation and the end of each approval once.
func ApprovalsRecorded(f Facts) []string {
	var found findings
	for _, a := range f.Approvals {
		f.approvalRecorded(a, &found)
	}
	return found
}

// cancelledRun is why an approval is closed whose run was cancelled by people.
const cancelledRun = "The execution was cancelled."

func (f Facts) approvalRecorded(a Approval, found *findings) {
	var execution string
	for _, r := range f.Runs {
		if r.ID == a.RunID {
			execution = r.ExecutionID
		}
	}
	n := func(action string) int {
		return len(f.records(func(r Record) bool { return r.Action == action && r.SubjectID == a.ID }))
	}
	about := func(action string) int {
		return len(f.records(func(r Record) bool {
			var d struct {
				ApprovalID string `json:"approval_id"`
			}
			return r.Action == action && r.ExecutionID == execution && json.Unmarshal(r.Details, &d) == nil && d.ApprovalID == a.ID
		}))
	}
	// People cancel the run, at most once. What ends an approval alone frees the id, and that may
	// be held again.
	cancelled := n("approval.cancelled")
	if a.ClosedReason == cancelledRun {
		cancelled = len(f.records(func(r Record) bool { return r.Action == "run.cancelled" && r.ExecutionID == execution }))
	}
	asked := n("run.held") + n("run.intercepted") + len(f.records(func(r Record) bool {
		return r.Action == "approval.edited" && strings.Contains(string(r.Details), `"superseded_by":"`+a.ID)
	}))
	ended := map[string]int{
		"pending": 1, "approved": n("approval.approved"), "rejected": n("approval.rejected"), "expired": n("approval.expired"),
		"cancelled": cancelled, "superseded": n("approval.superseded") + n("approval.edited"),
		"blocked": about("run.blocked"),
	}[a.Status]
	switch {
	case ended != 1:
		found.report("%s: %s, and %d records say so", a.ID, a.Status, ended)
	case a.Status != "blocked" && asked != 1:
		found.report("%s: %d records of its asking", a.ID, asked)
	case a.EscalatedAt != nil != (n("approval.escalated") == 1):
		found.report("%s: escalated at %v, with %d records", a.ID, a.EscalatedAt, n("approval.escalated"))
	}
}
