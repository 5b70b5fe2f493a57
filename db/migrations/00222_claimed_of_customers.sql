-- +goose Up

-- What callers and visitors say of a customer, apart from what the tenant knows: customer.claimed of policies.
ALTER TABLE customers ADD COLUMN claimed json NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE customers DROP COLUMN claimed;
