# Sequel: lists and pairs are literals; eager loads children by a query of their own, eager_graph
# by a join.
require "sequel"

DB = Sequel.connect(adapter: "postgres", database: "clients", host: ENV["PGHOST"],
                    user: ENV["PGUSER"])

class Customer < Sequel::Model
  one_to_many :orders
end

class Order < Sequel::Model
  many_to_one :customer
end

def orders_by_id(ids)
  Order.where(id: ids)
end

def print_children(customers)
  customers.each { |c| c.orders.each { |o| puts [c.id, o.id, o.amount].join("|") } }
end

def print_accounts(where)
  DB[:accounts].where(where).each { |a| puts [a[:number], a[:amount]].join("|") }
end

def lines(name)
  File.readlines(ENV[name], chomp: true)
end

case step = ARGV[0]
when "in"
  orders_by_id(lines("IDS").map(&:to_i)).each { |o| puts [o.id, o.customer_id, o.amount].join("|") }
when "subquery"
  Order.where(customer: Customer.where(region: 7))
       .each { |o| puts [o.customer_id, o.id, o.amount].join("|") }
when "eager" then print_children(Customer.where(region: 7).eager(:orders).all)
when "graph" then print_children(Customer.where(region: 7).eager_graph(:orders).all)
when "uuid" then print_accounts(uid: lines("UIDS"))
when "code" then print_accounts(code: lines("CODES"))
when "pair"
  print_accounts(%i[tenant_id number] => lines("PAIRS").map { |pair| pair.split.map(&:to_i) })
else
  abort "no step #{step}"
end
