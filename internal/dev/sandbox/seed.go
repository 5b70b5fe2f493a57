package sandbox

import "time"

// seed is what a new shop has: enough for each operation to have something to
// work on. ord_1001 is paid and can be refunded, cus_1004 can be deleted.
func seed(now time.Time) []change {
	day := func(n int) time.Time { return now.AddDate(0, 0, -n) }
	customer := func(id, name, email, phone string, age int) change {
		return change{Customer: &Customer{
			ID: id, Name: name, Email: email, Phone: phone, Metadata: map[string]string{}, CreatedAt: day(age), UpdatedAt: day(age),
		}}
	}
	order := func(id, customer, status string, amount, paid int64, currency, sku string, age int) change {
		return change{Order: &Order{
			ID: id, CustomerID: customer, Status: status, Amount: amount, AmountPaid: paid, Currency: currency,
			Items: []Item{{SKU: sku, Quantity: 1}}, Metadata: map[string]string{}, CreatedAt: day(age), UpdatedAt: day(age),
		}}
	}
	return []change{
		customer("cus_1001", "Ada Keller", "ada@example.com", "+4915112345678", 90),
		customer("cus_1002", "Bruno Silva", "bruno@example.com", "", 60),
		customer("cus_1003", "Chen Wei", "chen@example.com", "+8613812345678", 30),
		customer("cus_1004", "Dana Novak", "dana@example.com", "", 10),
		order("ord_1001", "cus_1001", orderPaid, 4999, 4999, "eur", "LAMP-01", 5),
		order("ord_1002", "cus_1001", orderShipped, 12900, 12900, "eur", "DESK-02", 20),
		order("ord_1003", "cus_1002", orderPending, 2500, 0, "usd", "MUG-03", 1),
		order("ord_1004", "cus_1003", orderPaid, 89900, 89900, "gbp", "BIKE-04", 3),
		order("ord_1005", "cus_1002", orderCancelled, 1500, 0, "usd", "MUG-03", 15),
		{Ticket: &Ticket{
			ID: "tic_1001", CustomerID: "cus_1001", Subject: "The lamp flickers", Body: "It flickers since yesterday.",
			Priority: "normal", Status: ticketOpen, Comments: []Comment{}, CreatedAt: day(2), UpdatedAt: day(2),
		}},
		{Message: &Message{
			ID: "msg_1001", CustomerID: "cus_1001", Channel: "email", To: "ada@example.com", Subject: "Your order ord_1001",
			Body: "Thank you for your order.", Status: "sent", CreatedAt: day(5),
		}},
	}
}
