-- claim_turn is the fence of messages to agents, and the line of each session. It returns the outcome
-- and the message:
--   working   the message is new, and it is answered at once
--   queued    the message is new, and others of its session are answered before
--   held      the message is new, and a person answers in this session
--   existing  the message of the key answers this call
--   busy      another one is answered, and the agent lets none wait, or p_most wait
--   customer  the session belongs to another customer
--   erased    the session belongs to a customer that was erased, and is about to be deleted
--   gone      there is no such customer: it was erased since the caller looked for it
-- In the last five nothing is to be stored: the caller undoes the transaction. The customer of the
-- message cannot be erased before it ends. So an erasure finds all messages of its customer.
-- With p_most 0, one that waits for people has the session too.
-- p_session is NULL where the message is in no session, p_key where it has no Idempotency-Key. All
-- that changes who works in a session has locked its row.
CREATE OR REPLACE FUNCTION claim_turn(
    p_tenant uuid, p_key text, p_call jsonb, p_message text, p_fingerprint bytea, p_metadata json, p_session text, p_most integer, p_reject boolean, p_now timestamptz
) RETURNS TABLE (outcome text, turn uuid, customer uuid, conversation uuid)
LANGUAGE plpgsql AS $$
DECLARE
    c     turns := jsonb_populate_record(NULL::turns, p_call);
    s     conversations;
    owner uuid;
    known uuid; -- the customer of the session, as it is found
    busy  integer;
    waits integer;
    how   text := 'working';
BEGIN
    IF p_key IS NOT NULL THEN
        SELECT k.turn INTO owner FROM turn_keys k WHERE k.tenant_id = p_tenant AND k.agent_id = c.agent_id AND k.key = p_key;
        IF FOUND THEN
            RETURN QUERY SELECT 'existing'::text, owner, NULL::uuid, c.conversation;
            RETURN;
        END IF;
    END IF;
    IF c.customer IS NOT NULL THEN
        c.customer := lock_customer(p_tenant, c.customer::text, false);
        IF c.customer IS NULL THEN
            RETURN QUERY SELECT 'gone'::text, c.id, NULL::uuid, c.conversation;
            RETURN;
        END IF;
    ELSIF p_session IS NOT NULL THEN
        -- Customers are locked before their sessions everywhere, so that no two wait for each other.
        SELECT o.customer INTO known FROM conversations o WHERE o.tenant_id = p_tenant AND o.agent_id = c.agent_id AND o.session_id = p_session;
        known := lock_customer(p_tenant, known::text, false);
    END IF;
    INSERT INTO conversations AS o (tenant_id, id, agent_id, session_id, customer, turns, version, created_at, updated_at)
        VALUES (p_tenant, c.conversation, c.agent_id, p_session, c.customer, 1, c.version, p_now, p_now)
        ON CONFLICT (tenant_id, agent_id, session_id) DO UPDATE SET updated_at = p_now, turns = o.turns + 1, version = c.version
        RETURNING * INTO s;
    IF c.customer IS NOT NULL AND s.customer IS NULL THEN
        UPDATE conversations o SET customer = c.customer WHERE o.tenant_id = p_tenant AND o.id = s.id;
        s.customer := c.customer;
    END IF;
    IF s.customer IS DISTINCT FROM coalesce(c.customer, known) THEN
        IF NOT EXISTS (SELECT FROM customers k WHERE k.tenant_id = p_tenant AND k.id = s.customer) THEN
            RETURN QUERY SELECT 'erased'::text, c.id, s.customer, s.id;
            RETURN;
        ELSIF c.customer IS NOT NULL THEN
            RETURN QUERY SELECT 'customer'::text, c.id, s.customer, s.id;
            RETURN;
        END IF;
        -- Another message has given the session its customer. The next try holds them.
        RAISE EXCEPTION 'the session has a customer since' USING ERRCODE = '40001';
    END IF;
    IF s.id <> c.conversation THEN
        SELECT count(*) FILTER (WHERE t.state = 'working' OR p_most = 0 AND t.state = 'waiting'), count(*) FILTER (WHERE t.state = 'queued') INTO busy, waits
          FROM turns t WHERE t.tenant_id = p_tenant AND t.conversation = s.id AND t.finished_at IS NULL;
        IF s.held_by IS NOT NULL THEN
            how := 'held';
        ELSIF busy + waits > 0 THEN
            how := 'queued';
            IF p_reject OR waits >= p_most THEN
                RETURN QUERY SELECT 'busy'::text, c.id, s.customer, s.id;
                RETURN;
            END IF;
        END IF;
    END IF;
    INSERT INTO turns (tenant_id, id, execution_id, agent_id, version, conversation, state, status, fingerprint, message, metadata, identity,
                       customer, customer_name, key_id, request_id, source_addr, workflow_id, streamed, stop_reason, parent_id, step, caller_workflow, chain, kind, goal, remembers, begun_at, updated_at, finished_at)
        VALUES (p_tenant, c.id, c.execution_id, c.agent_id, c.version, s.id, CASE how WHEN 'held' THEN 'ended' ELSE how END,
                CASE how WHEN 'held' THEN 'escalated' ELSE 'running' END, p_fingerprint, p_message, p_metadata, c.identity,
                s.customer, c.customer_name, c.key_id, c.request_id, c.source_addr, c.workflow_id, c.streamed,
                CASE how WHEN 'held' THEN 'escalated' ELSE '' END, c.parent_id, c.step, c.caller_workflow, c.chain, coalesce(c.kind, 'message'), c.goal,
                coalesce(c.remembers, false) AND s.customer IS NOT NULL,
                CASE how WHEN 'working' THEN p_now END, p_now, CASE how WHEN 'held' THEN p_now END);
    IF p_key IS NOT NULL THEN
        INSERT INTO turn_keys (tenant_id, agent_id, key, turn) VALUES (p_tenant, c.agent_id, p_key, c.id)
            ON CONFLICT ON CONSTRAINT turn_keys_pkey DO NOTHING;
        IF NOT FOUND THEN
            -- Another caller was first. The next try finds its message.
            RAISE EXCEPTION 'another caller took the key of the message' USING ERRCODE = '40001';
        END IF;
    END IF;
    RETURN QUERY SELECT how, c.id, s.customer, s.id;
END
$$;
