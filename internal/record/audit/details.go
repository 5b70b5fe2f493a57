package audit

import (
	"encoding/json"
	"fmt"
)

// With returns the record with what else there is to say of the change: a few small
// values that are no secrets. What cannot be encoded is a bug and panics.
func (r Record) With(details map[string]any) Record {
	raw, err := json.Marshal(details)
	if err != nil {
		panic(fmt.Sprintf("audit: encode details: %v", err))
	}
	r.Details = raw
	return r
}
