package verb

import "slices"

// OfMethod returns the risk and the operation type of an HTTP method where nothing else is
// said about the operation (docs/use/catalog-and-providers.md).
func OfMethod(method string) (Risk, Operation) {
	switch method {
	case "GET", "HEAD":
		return RiskLow, Read
	case "DELETE":
		return RiskHigh, Write
	default:
		return RiskMedium, Write
	}
}

// Below reports whether the risk is lower than another.
func (r Risk) Below(other Risk) bool {
	order := []Risk{RiskLow, RiskMedium, RiskHigh}
	return slices.Index(order, r) < slices.Index(order, other)
}
