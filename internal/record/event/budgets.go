package event

import "time"

// The types of events about budgets.
const (
	BudgetWarning   Type = "budget.warning"
	BudgetExhausted Type = "budget.exhausted"
)

// Budget are the members of an event about a budget.
type Budget struct {
	Measure  string    `json:"measure" about:"What the budget bounds." enum:"model_tokens,money_micros,write_calls"`
	APIKeyID string    `json:"api_key_id" about:"The API key whose budget it is. Empty for the tenant's own."`
	Month    string    `json:"month" about:"The month of UTC, as 2026-12."`
	Limit    int64     `json:"limit" about:"The most that the month has."`
	Used     int64     `json:"used" about:"What is used, calls under way included."`
	ResetsAt time.Time `json:"resets_at" about:"When the month ends and the budget begins again."`
}

// BudgetWarned is the body of budget.warning.
type BudgetWarned struct{ Budget }

// Type implements Body.
func (BudgetWarned) Type() Type { return BudgetWarning }

// BudgetUsedUp is the body of budget.exhausted.
type BudgetUsedUp struct{ Budget }

// Type implements Body.
func (BudgetUsedUp) Type() Type { return BudgetExhausted }
