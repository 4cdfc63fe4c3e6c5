package stepinto.runner;

import org.junit.Assert;
import org.junit.Test;

/** A template of {@link Canaries}. */
public class JUnit4Canary {
    @Test
    public void mustFail() {
        Assert.assertTrue(false);
    }
}
