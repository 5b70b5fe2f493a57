package event

// VerbQuarantined is the type of the event about verbs that an import has changed.
const VerbQuarantined Type = "verb.quarantined"

// MaxQuarantined is how many verbs an event names.
const MaxQuarantined = 50

// Quarantined is the body of verb.quarantined.
type Quarantined struct {
	Provider   string   `json:"provider" about:"The slug of the provider."`
	Verbs      []string `json:"verbs" about:"The verbs that are blocked until a user accepts them, as provider:verb_name, at most 50."`
	Total      int      `json:"verbs_total" about:"How many they are."`
	ImportedBy string   `json:"imported_by" about:"Who imported the document, as user:id or key:id."`
}

// Type implements Body.
func (Quarantined) Type() Type { return VerbQuarantined }
