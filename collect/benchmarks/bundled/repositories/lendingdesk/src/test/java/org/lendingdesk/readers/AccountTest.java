package org.lendingdesk.readers;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.math.BigDecimal;

import org.junit.Test;

public class AccountTest {

    private final Account account = new Account();

    @Test
    public void newAccountIsClear() {
        assertTrue(account.isClear());
    }

    @Test
    public void feesAreRoundedToCents() {
        account.charge(new BigDecimal("0.125"), 3);
        assertEquals(new BigDecimal("0.38"), account.owed());
        assertFalse(account.isClear());
    }

    @Test
    public void aPartIsPaid() {
        account.charge(new BigDecimal("0.25"), 8);
        assertEquals(0, account.pay(new BigDecimal("1.50")).signum());
        assertEquals(new BigDecimal("0.50"), account.owed());
    }

    @Test
    public void changeIsGivenBack() {
        account.charge(new BigDecimal("0.25"), 6);
        assertEquals(new BigDecimal("3.50"), account.pay(new BigDecimal("5.00")));
        assertEquals(0, account.owed().signum());
    }
}
