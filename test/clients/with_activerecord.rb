# ActiveRecord: where with a list, with a relation, its two ways to load children, or() for pairs.
require "active_record"

ActiveRecord::Base.establish_connection(
  adapter: "postgresql", database: "clients", host: ENV["PGHOST"], port: ENV["PGPORT"],
  username: ENV["PGUSER"]
)

class Customer < ActiveRecord::Base
  has_many :orders
end

class Order < ActiveRecord::Base
  belongs_to :customer
end

class Account < ActiveRecord::Base
  self.primary_key = "uid"
end

def orders_by_id(ids)
  Order.where(id: ids)
end

def customers_with_orders(region)
  Customer.where(region: region).preload(:orders)        # or includes
end

def customers_joined_with_orders(region)
  Customer.where(region: region).eager_load(:orders)     # LEFT OUTER JOIN
end

def orders_of_region(region)
  Order.where(customer_id: Customer.where(region: region))
end

def accounts_by_pair(pairs)
  pairs.map { |tenant, number| Account.where(tenant_id: tenant, number: number) }.reduce(:or)
end

class IndexOrdersByCustomer < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def change
    add_index :orders, :customer_id, name: "orders_customer", using: :gpujoin,
              algorithm: :concurrently
  end
end

def print_children(customers)
  customers.each { |c| c.orders.each { |o| puts [c.id, o.id, o.amount].join("|") } }
end

def lines(name)
  File.readlines(ENV[name], chomp: true)
end

def print_accounts(accounts)
  accounts.each { |a| puts [a.number, a.amount].join("|") }
end

case step = ARGV[0]
when "in"
  orders_by_id(lines("IDS").map(&:to_i)).each { |o| puts [o.id, o.customer_id, o.amount].join("|") }
when "subquery"
  orders_of_region(7).each { |o| puts [o.customer_id, o.id, o.amount].join("|") }
when "preload" then print_children(customers_with_orders(7))
when "eager" then print_children(customers_joined_with_orders(7))
when "uuid" then print_accounts(Account.where(uid: lines("UIDS")))
when "code" then print_accounts(Account.where(code: lines("CODES")))
when "pair" then print_accounts(accounts_by_pair(lines("PAIRS").map(&:split)))
when "index" then IndexOrdersByCustomer.migrate(:up)
else
  abort "no step #{step}"
end
