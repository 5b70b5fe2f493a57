package wire

import "agentruntime/internal/base/fault"

// IdempotencyKey reads the header Idempotency-Key. given is false where it is absent. It fails
// with INVALID_IDEMPOTENCY_KEY.
func (c *Call) IdempotencyKey() (key string, given bool, err error) {
	values := c.Request.Header.Values("Idempotency-Key")
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		key, err = IdempotencyKeyOf("header.Idempotency-Key", values[0])
		return key, true, err
	}
	return "", false, fault.New(fault.CodeInvalidIdempotencyKey, "Send the header Idempotency-Key once.")
}

// IdempotencyKeyOf checks an idempotency key that stands at path: 1 to 255 visible ASCII
// characters. It fails with INVALID_IDEMPOTENCY_KEY.
func IdempotencyKeyOf(path, key string) (string, error) {
	if VisibleASCII(key, 255) {
		return key, nil
	}
	f := fault.New(fault.CodeInvalidIdempotencyKey, "")
	f.Details = []fault.Detail{{Path: path, Rule: "format", Message: "1 to 255 visible ASCII characters."}}
	return "", f
}
