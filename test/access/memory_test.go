package access

// memoryProbes are the places of the API that take a customer or a fact about one.
func memoryProbes() []probe {
	return []probe{
		{"GET", "/v1/customers/{}/memory", "", false, "customer"},
		{"GET", "/v1/customers/{}/memory", "", true, "customer"},
		{"POST", "/v1/customers/{}/memory", `{"text":"mine now"}`, false, "customer"},
		{"POST", "/v1/customers/{}/memory", `{"text":"mine now"}`, true, "customer"},
		{"POST", "/v1/customers/alpha-customer/memory", `{"text":"mine now","supersedes":"{}"}`, false, "fact"},
		{"GET", "/v1/customers/alpha-customer/memory/{}", "", false, "fact"},
		{"GET", "/v1/customers/alpha-customer/memory/{}", "", true, "fact"},
		{"PATCH", "/v1/customers/alpha-customer/memory/{}", `{"text":"mine now"}`, false, "fact"},
		{"PATCH", "/v1/customers/alpha-customer/memory/{}", `{"text":"mine now"}`, true, "fact"},
		{"DELETE", "/v1/customers/alpha-customer/memory/{}", "", false, "fact"},
		{"DELETE", "/v1/customers/alpha-customer/memory/{}", "", true, "fact"},
	}
}
