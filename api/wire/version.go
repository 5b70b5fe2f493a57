package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// VersionTag returns the ETag of a resource that has version numbers.
func VersionTag(version int32) string { return fmt.Sprintf(`"%d"`, version) }

// IfMatchVersion reads If-Match, the version that the caller expects. It is nil where any
// version will do. A tag that VersionTag never makes becomes 0, which no resource has.
func (c *Call) IfMatchVersion() *int32 {
	raw := strings.TrimSpace(c.Request.Header.Get("If-Match"))
	if raw == "" || raw == "*" {
		return nil
	}
	var version int32
	if n, err := strconv.ParseInt(strings.Trim(raw, `"`), 10, 32); err == nil {
		version = int32(n)
	}
	return &version
}
