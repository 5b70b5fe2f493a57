package audit

import (
	"encoding/json"
	"fmt"
)

// With returns the record with details of the change: a few small values, never a secret.
// It panics on a value that cannot be encoded, which is a bug.
func (r Record) With(details map[string]any) Record {
	raw, err := json.Marshal(details)
	if err != nil {
		panic(fmt.Sprintf("audit: encode details: %v", err))
	}
	r.Details = raw
	return r
}
