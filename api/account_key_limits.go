package api

import (
	"encoding/json"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/rate"
	"agentruntime/internal/base/strictjson"
)

// keyLimits are the limits that a key has of its own; null: the tenant's alone.
type keyLimits struct {
	Minute *int64 `json:"requests_per_minute"`
	Hour   *int64 `json:"requests_per_hour"`
	Day    *int64 `json:"requests_per_day"`
}

func viewKeyLimits(own rate.Own) keyLimits {
	wide := func(n *int32) *int64 {
		if n == nil {
			return nil
		}
		return new(int64(*n))
	}
	return keyLimits{wide(own.Minute), wide(own.Hour), wide(own.Day)}
}

// readKeyLimits reads the member limits of a body. It returns nil where the member is absent; null
// and {} are no limits.
func readKeyLimits(raw json.RawMessage) (*rate.Own, error) {
	if len(raw) == 0 {
		return nil, nil //nolint:nilnil // absent is a value, not an error
	}
	var b keyLimits
	if string(raw) != "null" {
		if err := strictjson.Decode(raw, &b, strictjson.Options{}); err != nil {
			return nil, under("/limits", err)
		}
	}
	var v wire.Validation
	own := &rate.Own{
		Minute: keyLimit(&v, "requests_per_minute", b.Minute), Hour: keyLimit(&v, "requests_per_hour", b.Hour), Day: keyLimit(&v, "requests_per_day", b.Day),
	}
	return own, v.Err()
}

func keyLimit(v *wire.Validation, name string, n *int64) *int32 {
	if n == nil {
		return nil
	}
	return new(checkLimit(v, name, "/limits/"+name, *n))
}

// under puts the places that a refusal names below path.
func under(path string, err error) error {
	if f := fault.As(err); f != nil {
		for i := range f.Details {
			f.Details[i].Path = path + f.Details[i].Path
		}
	}
	return err
}
