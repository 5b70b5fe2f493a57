package app

import (
	"fmt"
	"os"

	"agentruntime/internal/kernel/model"
	"agentruntime/internal/kernel/model/scripted"
)

// scriptedModel returns the model that answers from the fixtures of a file; nil for "".
func scriptedModel(file string) (model.Model, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // no model is connected, which is no fault
	}
	script, err := os.ReadFile(file) //nolint:gosec // the operator of a development server names it
	if err != nil {
		return nil, fmt.Errorf("app: MODEL_SCRIPT: %w", err)
	}
	m, err := scripted.New(script)
	if err != nil {
		return nil, fmt.Errorf("app: MODEL_SCRIPT: %w", err)
	}
	return m, nil
}
