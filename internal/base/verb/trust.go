package verb

// Trust says whose words the results of a provider or of a verb are.
type Trust string

// Trusts. What External sources say taints a session, because strangers may have written it.
const (
	Own      Trust = "own"
	External Trust = "external"
)
