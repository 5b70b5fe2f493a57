package attempt

// Cause says why nothing of an attempt left. Operators and users see it, so a value is never
// renamed.
type Cause string

// The causes. The zero Cause is not known.
const (
	// NoConnection: the provider refused the connection, or the network did.
	NoConnection Cause = "no_connection"
	// NoName: the provider's name was not found.
	NoName Cause = "no_name"
	// NoTLS: the provider's certificate is not valid, or TLS failed otherwise.
	NoTLS Cause = "no_tls"
	// ConnectTimeout: no connection came about in time.
	ConnectTimeout Cause = "connect_timeout"
	// Ours: the request could not be built, its address may not be called, or this process
	// stopped it.
	Ours Cause = "ours"
)

// OfProvider reports whether the provider could not be reached. It could not where the cause is
// neither ours nor unknown.
func (c Cause) OfProvider() bool { return c != Ours && c != "" }
