package org.lendingdesk.readers;

import java.math.BigDecimal;
import java.math.RoundingMode;

/** What a reader owes, in euros. */
public final class Account {

    private BigDecimal balance = BigDecimal.ZERO;

    /** Adds a fee for so many days. */
    public void charge(BigDecimal perDay, long days) {
        BigDecimal fee = perDay.multiply(BigDecimal.valueOf(days));
        balance = balance.add(fee.setScale(2, RoundingMode.HALF_UP));
    }

    /** Takes money; more than what is owed is given back, and is the result. */
    public BigDecimal pay(BigDecimal money) {
        BigDecimal change = money.subtract(balance).max(BigDecimal.ZERO);
        balance = balance.subtract(money.subtract(change));
        return change;
    }

    public BigDecimal owed() {
        return balance;
    }

    public boolean isClear() {
        return balance.signum() == 0;
    }
}
