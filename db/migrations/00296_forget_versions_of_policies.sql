-- +goose Up

-- The oldest versions of policies make room for new ones: forget_policy_versions.
GRANT DELETE ON policy_versions TO agentruntime_app;

-- +goose Down
REVOKE DELETE ON policy_versions FROM agentruntime_app;
